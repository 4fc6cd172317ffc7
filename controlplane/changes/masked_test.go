package changes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestMasked: a document without its secrets, and without what makes it too long.
func TestMasked(t *testing.T) {
	long := strings.Repeat("ä", 150)
	for _, c := range []struct {
		kind       *model.Kind
		text, want string
		cut        bool
	}{
		{open, `{"b":1.50,"a":{"c":[true,null,"<&>"]}}`, `{"a":{"c":[true,null,"<&>"]},"b":1.5}`, false},
		{mixed, `{"key":"s3cret","id":"k","list":[{"user":"u","pass":"s3cret"},{"pass":{"deep":"s3cret"}}]}`, `{"id":"k","key":"CONCEALED+++","list":[{"pass":"CONCEALED+++","user":"u"},{"pass":"CONCEALED+++"}]}`, false},
		{mixed, `{"key":null}`, `{"key":null}`, false},
		{sealed, `{"a":"s3cret","b":{"c":"s3cret"}}`, `{"a":"CONCEALED+++","b":"CONCEALED+++"}`, false},
		{open, `{"a":"` + long + `","b":1}`, `{"a":"` + long[:200] + `","b":1}`, true},
		{mixed, `{"a":{"` + long + `":{"pass":"s3cret"}},"b":1}`, `{"a":{},"b":1}`, true},
		{open, `{}`, `{}`, false},
		{open, ``, ``, false},
	} {
		got, cut, err := changes.Masked(of(t, c.kind, c.text))
		if got != c.want || cut != c.cut || err != nil {
			t.Errorf("%s\n%s, %v, %v, want\n%s, %v", c.text, got, cut, err, c.want, c.cut)
		}
	}
}

// TestMaskedIsBounded: whatever a resource holds, its document is JSON and not much longer than it may be.
func TestMaskedIsBounded(t *testing.T) {
	var members strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&members, `"%s%d":1,`, strings.Repeat("k", 100), i)
	}
	for name, text := range map[string]string{
		"lists":   `{"a":[` + strings.Repeat(`[],`, 100_000) + `[]]}`,
		"texts":   `{"a":[` + strings.Repeat(`"x",`, 100_000) + `1]}`,
		"control": `{"a":["` + strings.Repeat(strings.Repeat(`\u0001`, 200)+`","`, 500) + `"]}`,
		"deep":    `{"a":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`,
		"members": `{` + members.String() + `"z":1}`,
	} {
		got, cut, err := changes.Masked(of(t, open, text))
		if len(got) > changes.MaxDocument || !json.Valid([]byte(got)) || !cut || err != nil {
			t.Errorf("%s: %d bytes, cut %v, %v: %.80s", name, len(got), cut, err, got)
		}
	}
}

// TestMaskedProperty: a secret is found nowhere, wherever it stands below a member that is one.
func TestMaskedProperty(t *testing.T) {
	const secret = "s3cret"
	rapid.Check(t, func(r *rapid.T) {
		below := rapid.Custom(func(r *rapid.T) any {
			var v any = secret
			for range rapid.IntRange(0, 6).Draw(r, "depth") {
				if rapid.Bool().Draw(r, "list") {
					v = []any{v}
				} else {
					v = map[string]any{rapid.StringN(0, 80, 200).Draw(r, "name"): v}
				}
			}
			return v
		})
		spec := free{"key": below.Draw(r, "key"), "list": map[string]any{rapid.StringN(0, 250, 500).Draw(r, "entry"): map[string]any{"pass": below.Draw(r, "pass")}}}
		got, _, err := changes.Masked(&model.Resource{Kind: mixed, Name: "n", Spec: &spec})
		if strings.Contains(got, secret) || err != nil {
			r.Fatalf("%s, %v", got, err)
		}
	})
}
