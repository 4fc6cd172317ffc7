package changes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// free is a spec of any form.
type free map[string]any

func newFree() any { return &free{} }

var (
	open   = &model.Kind{Name: "open", Class: model.Config, New: newFree}
	mixed  = &model.Kind{Name: "mixed", Class: model.Config, New: newFree, Sealed: true, Secrets: []string{"/key", "/list/*/pass"}}
	sealed = &model.Kind{Name: "sealed", Class: model.Config, New: newFree, Sealed: true}
)

// of makes a resource from a JSON text, or nil from an empty one.
func of(t testing.TB, k *model.Kind, text string) *model.Resource {
	t.Helper()
	if text == "" {
		return nil
	}
	spec := k.New()
	if err := json.Unmarshal([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return &model.Resource{Kind: k, Name: "n", Spec: spec}
}

// lines returns members in a form that can be compared.
func lines(list []store.Member) (out []string) {
	for _, m := range list {
		line := m.Path
		if m.Secret {
			line += " secret"
		}
		if m.Old != nil {
			line += " -" + string(m.Old)
		}
		if m.New != nil {
			line += " +" + string(m.New)
		}
		if m.Cut {
			line += " cut"
		}
		out = append(out, line)
	}
	return out
}

func TestMembers(t *testing.T) {
	long := strings.Repeat("ä", changes.MaxValue)
	for name, c := range map[string]struct {
		kind     *model.Kind
		old, now string
		want     []string
	}{
		"nothing":       {open, `{"a":1,"b":[{"c":null}]}`, `{"b":[{"c":null}],"a":1}`, nil},
		"a value":       {open, `{"a":1}`, `{"a":"<1>"}`, []string{`/a -1 +"<1>"`}},
		"came and went": {open, `{"a":1}`, `{"b":null}`, []string{"/a -1", "/b +null"}},
		"created":       {open, "", `{"a":{"b":[1,2],"c":{}}}`, []string{"/a/b/0 +1", "/a/b/1 +2", "/a/c +{}"}},
		"deleted":       {open, `{"a":true,"b":[]}`, "", []string{"/a -true", "/b -[]"}},
		"created empty": {open, "", `{}`, nil},
		"lists by place": {open, `{"l":[0,1,2,3,4,5,6,7,8,9,10]}`, `{"l":[0,1,9,3,4,5,6,7,8,9,10,11]}`,
			[]string{"/l/2 -2 +9", "/l/11 +11"}},
		"shorter":             {open, `{"l":[1,2,3]}`, `{"l":[1]}`, []string{"/l/1 -2", "/l/2 -3"}},
		"emptied":             {open, `{"l":[1,2]}`, `{"l":[]}`, []string{"/l/0 -1", "/l/1 -2", "/l +[]"}},
		"another sort":        {open, `{"x":{"0":1}}`, `{"x":[1]}`, []string{"/x/0 -1", "/x/0 +1"}},
		"a scalar for a list": {open, `{"x":[1]}`, `{"x":1}`, []string{"/x/0 -1", "/x +1"}},
		"odd names":           {open, `{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, []string{"/a~1b/~0 -1 +2"}},
		"a long value": {open, `{"a":"` + long + `"}`, `{"a":"` + long + `x"}`, []string{
			`/a -"` + strings.Repeat("ä", changes.MaxValue/2) + `" +"` + strings.Repeat("ä", changes.MaxValue/2) + `" cut`,
		}},
		"the same long value": {open, `{"a":"` + long + `","b":1}`, `{"a":"` + long + `","b":2}`, []string{"/b -1 +2"}},
		"secrets": {mixed, `{"key":{"a":"S1","b":"S2"},"list":[{"pass":"S3","user":"u"}],"keys":1}`,
			`{"key":{"a":"S4"},"list":[{"pass":"S5","user":"v"},{"pass":["S6"]}],"keys":2}`, []string{
				"/key/a secret", "/key/b secret", "/keys -1 +2", "/list/0/pass secret", `/list/0/user -"u" +"v"`, "/list/1/pass/0 secret",
			}},
		"sealed without a word on what is secret": {sealed, `{"a":"S1"}`, `{"a":"S2","b":"S3"}`, []string{"/a secret", "/b secret"}},
	} {
		d, err := changes.Between(of(t, c.kind, c.old), of(t, c.kind, c.now))
		if diff := cmp.Diff(c.want, lines(d.Members)); diff != "" || d.More != 0 || err != nil {
			t.Errorf("%s: %d more, %v (-want +got):\n%s", name, d.More, err, diff)
		}
		if raw, _ := json.Marshal(d); strings.Contains(string(raw), `"S`) {
			t.Errorf("%s: a secret in %s", name, raw)
		}
	}
}

// TestMembersAreBounded: members beyond any of the limits are counted.
func TestMembersAreBounded(t *testing.T) {
	many := map[string]int{}
	for i := range 3 * changes.MaxMembers {
		many[fmt.Sprintf("%04d", i)] = i
	}
	many["0"+strings.Repeat("/", changes.MaxPath)] = 1
	raw, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	d, err := changes.Between(nil, of(t, open, string(raw)))
	if err != nil || len(d.Members) != changes.MaxMembers || d.More != 2*changes.MaxMembers+1 {
		t.Errorf("%d members and %d more: %v", len(d.Members), d.More, err)
	}
}
