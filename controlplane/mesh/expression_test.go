package mesh_test

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestWrongExpression: an expression is refused that some supported Envoy refuses, or that two
// versions read differently. TestAcceptedIsAccepted of the sidecar's planner asks them.
func TestWrongExpression(t *testing.T) {
	const large = "is too large an expression: proxies refuse it"
	const classes = `must not use \p, \P or codes above \x7F: versions of Envoy read them differently`
	for _, c := range []struct{ pattern, want string }{
		{"/v[0-9]+/.*", ""},
		{"[^/]+", ""},
		{"(?i)host", ""},
		{`\Q\pL\E\x7f\x{7F}\x{0007f}`, ""},
		{`\\pL`, ""},
		{"a{400}", ""},
		{"(", "must be a regular expression (RE2)"},
		{`(?=a)`, "must be a regular expression (RE2)"},
		{"a{1000}", large},
		{"(a{30}){30}", large},
		{".{99}", large},
		{"[^/]{300}", large},
		{strings.Repeat("a", 1025), large},
		{"é", "must consist of ASCII characters: versions of Envoy read others differently"},
		{`\pL`, classes},
		{`[\PL]`, classes},
		{`\p{Greek}`, classes},
		{`\x{10FFFF}`, classes},
		{`[^\x00-\x{10FFFF}]`, classes},
		{`\xFF`, classes},
		{`\377`, classes},
		{`\Qa\E\pL`, classes},
	} {
		if got := mesh.WrongExpression(c.pattern); got != c.want {
			t.Errorf("%.40q: %q, want %q", c.pattern, got, c.want)
		}
	}
}

// TestWrongSubstitution: a text is refused that names a group that is not there.
func TestWrongSubstitution(t *testing.T) {
	const digit = "must have a digit or another backslash after a backslash"
	for _, c := range []struct{ text, want string }{
		{"/b", ""},
		{`/\0/\1\\9`, ""},
		{`/\2`, `\2 is no group of the expression, which has 1`},
		{`/\a`, digit},
		{`/\`, digit},
		{"/a\nb", "must consist of characters that a header can have"},
	} {
		if got := mesh.WrongSubstitution("^/(.*)$", c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	if got := mesh.WrongSubstitution("(", "a"); got != "" {
		t.Errorf("of no expression: %q", got)
	}
}
