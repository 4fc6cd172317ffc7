package agent

import (
	"fmt"
	"strings"
)

// Substitute replaces every {{ name }} in a text by the value of the variable. Nothing else
// has a meaning inside the braces, and values are not substituted again. Unknown variables
// and unclosed braces are errors.
func Substitute(text string, variables map[string]string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}}")
		name = strings.TrimSpace(name)
		if !closed || strings.Contains(name, "\n") {
			return "", fmt.Errorf("a placeholder does not end with }}")
		}
		value, ok := variables[name]
		if !ok {
			return "", fmt.Errorf("variable %q is not given", name)
		}
		b.WriteString(value)
		text = after
	}
}
