package sqlstore

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestIndexesInAnotherOrder: the comparison of a database's indexes with those of the program
// ignores only the order in which kinds list them.
func TestIndexesInAnotherOrder(t *testing.T) {
	kind := func(refs []model.Ref, lists ...string) string {
		k := &model.Kind{Name: "box", Refs: refs}
		for _, name := range lists {
			k.Lists = append(k.Lists, model.ListIndex{Name: name})
		}
		return fingerprint(map[string]*model.Kind{"box": k, "other": {Name: "other"}})
	}
	a, b := model.Ref{Name: "a", To: "x"}, model.Ref{Name: "b", To: "y"}
	was := kind([]model.Ref{a, b}, "tags", "user")
	if !sameIndexes(was, kind([]model.Ref{b, a}, "user", "tags")) {
		t.Error("another order is another set of indexes")
	}
	b.OnDelete = model.Cascade
	for name, now := range map[string]string{
		"a list less":       kind([]model.Ref{a, {Name: "b", To: "y"}}, "tags"),
		"another reference": kind([]model.Ref{a, b}, "tags", "user"),
		"nothing":           "",
	} {
		if sameIndexes(was, now) {
			t.Errorf("%s: it is the same", name)
		}
	}
}
