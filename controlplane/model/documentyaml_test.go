package model

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// TestFromYAML: a document costs no more memory than somebody sent, whatever it
// refers to.
func TestFromYAML(t *testing.T) {
	for _, tc := range []struct{ name, doc, want, refusal string }{
		{"object", "a: 1\nb: [x, \"*y\", '&z']\n", `{"a":1,"b":["x","*y","\u0026z"]}`, ""},
		{"json", `{"a":"&x *x"}`, `{"a":"\u0026x *x"}`, ""},
		{"a mark in a comment", "a: 1 # this & that *\n", `{"a":1}`, ""},
		{"no YAML", "a: [", "", "the document is no YAML"},
		{"no YAML with a mark", "a: [&", "", "the document is no YAML"},
		{"twice", "a: 1\na: 2\n", "", `key "a" already set`},
		{"an alias", "a: &x 1\nb: *x\n", "", "anchors and aliases"},
		{"an anchor alone", "a: &x 1\n", "", "anchors and aliases"},
		{"in a key", "a: {? &x k : 1}\n", "", "anchors and aliases"},
		{"merged", "a: &x {k: 1}\nb: {<<: *x}\n", "", "anchors and aliases"},
		{"long text many times", "a: &x " + strings.Repeat("x", 1<<10) + "\nb: [" + strings.Repeat("*x,", 1<<10) + "]\n", "", "anchors and aliases"},
		{"too long", "a: " + strings.Repeat("x", MaxDocument), "", "at most"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := FromYAML([]byte(tc.doc))
			if tc.refusal != "" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.refusal) {
					t.Errorf("%v, %d bytes", err, len(got))
				}
				return
			}
			if err != nil || string(got) != tc.want {
				t.Errorf("%s %v", got, err)
			}
		})
	}
}
