package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Wants checks what follows the name of a command against its Use line, in which each
// word in capitals is an argument, and one in brackets may be left out. A count would
// tell nobody at night what to write, so the error names what is missing and shows one
// line that works.
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
		// What is too much is not repeated: it may be the value of a flag that lacks its name.
		return fmt.Errorf("too much is given, %d arguments instead of %s: %s; for example: %s", len(args), strings.Join(all, " and "), c.UseLine(), example)
	}
	return nil
}
