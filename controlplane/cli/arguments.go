package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Wants checks the arguments of a command against its Use line. Each word in capitals there
// is an argument; one in brackets is optional. The error names the missing arguments and
// shows a working example, because a count alone does not tell what to write.
func Wants(c *cobra.Command, args []string) error {
	var needed, all []string
	for _, word := range strings.Fields(c.Use)[1:] {
		name := strings.Trim(word, "[]")
		if all = append(all, name); name == word {
			needed = append(needed, name)
		}
	}
	example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	switch {
	case len(args) < len(needed):
		missing, is := needed[len(args):], "is"
		if len(missing) > 1 {
			is = "are"
		}
		return fmt.Errorf("%s %s missing: %s; for example: %s", strings.Join(missing, " and "), is, c.UseLine(), example)
	case len(args) > len(all):
		// Surplus arguments are not repeated: one may be the value of a flag whose name is
		// missing.
		return fmt.Errorf("too much is given, %d arguments instead of %s: %s; for example: %s", len(args), strings.Join(all, " and "), c.UseLine(), example)
	}
	return nil
}
