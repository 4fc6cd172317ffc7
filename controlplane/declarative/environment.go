package declarative

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Prefixes are how the names of variables begin that files may refer to. The second one is
// that of the tool that files may come from. Without a prefix, a file could read every secret
// of whoever applies it.
var Prefixes = []string{"MESHGATE_FILE_", "DECK_"}

// environment replaces references to the environment: ${{ env "MESHGATE_FILE_X" }}.
type environment struct {
	lookup func(name string) (string, bool)
	// values are those that were used. Nobody knows which of them are secrets.
	values []string
}

var (
	references = regexp.MustCompile(`\$\{\{.*?\}\}`)
	reference  = regexp.MustCompile(`^\$\{\{\s*env\s+["']([A-Za-z0-9_]+)["']\s*\}\}$`)
	literally  = regexp.MustCompile("^\\$\\{\\{\\s*[`\"]\\$\\{\\{[`\"]\\s*\\}\\}$")
)

// opening is how references begin, literal what stands for it where it begins none. Other
// tools, for which it is a text in a template, replace it by the same.
const (
	opening = "${{"
	literal = "${{ `${{` }}"
)

// Literal returns a text that a file may hold to say text, even if that looks like a reference
// to the environment.
func Literal(text string) string { return strings.ReplaceAll(text, opening, literal) }

// replace returns a text with all references replaced.
func (e *environment) replace(text string) (_ string, err error) {
	out := references.ReplaceAllStringFunc(text, func(found string) string {
		if literally.MatchString(found) {
			return opening
		}
		value, failed := e.value(found)
		if err == nil {
			err = failed
		}
		return value
	})
	if err == nil && strings.Contains(references.ReplaceAllString(text, ""), opening) {
		err = fmt.Errorf("%q is no whole reference to the environment: ${{ env \"%sNAME\" }}", text, Prefixes[0])
	}
	return out, err
}

// used returns how many values were put in.
func (e *environment) used() int {
	if e == nil {
		return 0
	}
	return len(e.values)
}

func (e *environment) value(found string) (string, error) {
	if e == nil {
		return "", errors.New("references to the environment are not replaced here")
	}
	m := reference.FindStringSubmatch(found)
	if m == nil {
		return "", fmt.Errorf("%s is not understood: only ${{ env \"%sNAME\" }} is replaced", found, Prefixes[0])
	}
	name := m[1]
	if !strings.HasPrefix(name, Prefixes[0]) && !strings.HasPrefix(name, Prefixes[1]) {
		return "", fmt.Errorf("environment variables in a file must be prefixed with '%s' or '%s', found: '%s'", Prefixes[0], Prefixes[1], name)
	}
	value, ok := e.lookup(name)
	if !ok || value == "" {
		return "", fmt.Errorf("environment variable '%s' present in file but not set", name)
	}
	e.values = append(e.values, value)
	return value, nil
}
