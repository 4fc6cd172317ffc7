package yamldoc

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// limit is the limit of the documents in these tests.
const limit = 1 << 20

// TestJSON: a document does not cost more memory than its size justifies, whatever it
// refers to.
func TestJSON(t *testing.T) {
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
		{"a second document", "a: 1\n---\nb: 2\n", "", "more than one YAML document: the second begins in line 2"},
		{"behind an empty one", "---\n---\nb: 2\n", "", "more than one YAML document"},
		{"behind an end", "a: 1\n...\n---\n[]\n", "", "more than one YAML document"},
		{"a second one that is no YAML", "a: 1\n---\na: [", "", "the document is no YAML"},
		{"marks around it", "---\na: 1\n---\n# nothing\n...\n", `{"a":1}`, ""},
		{"nothing", "", "null", ""},
		{"a number and its text", "a:\n  1: x\n  \"1\": y\n", "", `two keys of one mapping are the same text (line 3, "1")`},
		{"a truth and its text", "{true: x, 'true': y}", "", `two keys of one mapping are the same text (line 1, "true")`},
		{"a truth in other words", "[{yes: x, 'true': y}]", "", "two keys of one mapping are the same text:"},
		{"two notations of a number", "{0x1: x, 1: y}", "", "key 1 already set"},
		{"numbers as keys", "a: {1: x, 2: {true: z}}\nb: {1: x}\n", `{"a":{"1":"x","2":{"true":"z"}},"b":{"1":"x"}}`, ""},
		{"too long", "a: " + strings.Repeat("x", limit), "", "at most"},
		{"too many values", "a: [" + strings.Repeat("1,", maxNodes) + "]", "", "send a larger one as JSON"},
		{"too many keys", "a: {" + numbered(maxNodes/2) + "}", "", "send a larger one as JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := JSON(t.Context(), []byte(tc.doc), limit)
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

// numbered returns n keys without values.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%x: ,", i)
	}
	return b.String()
}

// TestJSONTakesTurns: the number of documents that are parsed at once leaves processors
// for others. A caller that finds no place, or gives up, gets an error.
func TestJSONTakesTurns(t *testing.T) {
	taken := 0
	for parsing.TryEnter() {
		taken++
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := JSON(ctx, []byte("a: 1"), limit)
	for range taken {
		parsing.Leave()
	}
	if taken == 0 || !fault.Is(err, fault.Unavailable) {
		t.Errorf("beside %d others: %v", taken, err)
	}
	if _, err := JSON(t.Context(), []byte("a: 1"), limit); err != nil {
		t.Errorf("alone: %v", err)
	}
}
