package declarative

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// TestLiteral: a file can hold the text with which references begin, for clients and for
// gateways without a database.
func TestLiteral(t *testing.T) {
	const text = `a ${{ env "DECK_X" }} ${{`
	data := []byte("_format_version: \"3.0\"\nservices:\n- name: '" + Literal(text) + "'\n")
	lookup := func(string) (string, bool) { return "replaced", true }
	for _, c := range []*Client{nil, {Lookup: lookup}} {
		f, err := Parse("f", data, gateway.Kinds())
		if c != nil {
			f, err = c.Parse("f", data, gateway.Kinds())
		}
		if err != nil || f.Entities()[0].Values["name"] != text {
			t.Errorf("%v %v", err, f.Entities())
		}
	}
	_, err := Parse("f", []byte(strings.ReplaceAll(string(data), literal, opening)), gateway.Kinds())
	if err == nil || !strings.Contains(err.Error(), "are not replaced here") {
		t.Errorf("%v", err)
	}
}
