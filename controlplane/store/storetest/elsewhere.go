package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// at is a resource of any scope.
func at(scope string, k *model.Kind, name string, spec Item) *model.Resource {
	return &model.Resource{Kind: k, Scope: scope, Name: name, Spec: &spec}
}

// removeAt deletes a resource of any scope and returns what went, in order of keys.
func removeAt(t *testing.T, s store.Store, scope string, k *model.Kind, name string) (gone []model.Key) {
	t.Helper()
	cause := model.Key{Kind: k.Name, Scope: scope, Name: name}
	c := must(t, s, func(tx store.Tx) error { return tx.Delete(k, scope, name, 0) })
	for _, ch := range c.Changes {
		gone = append(gone, ch.Old.Key())
		if by := ch.Cause; ch.Old.Key() != cause && (by == nil || *by != cause) {
			t.Errorf("%v went because of %v", ch.Old.Key(), by)
		}
	}
	slices.SortFunc(gone, compareKeys)
	return gone
}

// listedBy lists the things of a scope whose parent is of another one.
func listedBy(t *testing.T, s store.Store, scope, of, parent string) (out []string) {
	t.Helper()
	view(t, s, func(r store.Reader) error {
		q := store.Query{Scope: scope, Index: "parent", Value: parent, Of: of}
		list, err := r.List(Thing, q)
		out = names(list)
		if n, failed := r.Count(Thing, q); n != len(out) || failed != nil {
			t.Errorf("%+v: counts %d of %v, %v", q, n, out, failed)
		}
		return err
	})
	return out
}

// testElsewhere checks references that name a row of another scope: three rows have one
// name, and each is itself. Referrers of two scopes have one name as well.
func testElsewhere(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, at("a", Thing, "p", Item{}), at("b", Thing, "p", Item{}), at("c", Thing, "p", Item{}),
		at("a", Thing, "t", Item{Parent: "p", In: "b"}), at("b", Thing, "t", Item{Parent: "p"}), at("c", Thing, "t", Item{Parent: "p", In: "b"}),
		at("a", Thing, "own", Item{Parent: "p"}), at("c", Thing, "child", Item{Parent: "t", In: "a"}))
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(at("a", Thing, "x", Item{Parent: "own", In: "b"}))
		wantSubject(t, err, fault.Dangling, store.DanglingReference{Kind: Thing, Ref: "parent", To: model.Key{Kind: "thing", Scope: "b", Name: "own"}})
		return nil
	})
	for _, c := range []struct {
		scope, of, parent string
		want              []string
	}{
		{"a", "", "p", []string{"own"}}, {"a", "a", "p", []string{"own"}}, {"a", "b", "p", []string{"t"}}, {"a", "c", "p", []string{}},
		{"b", "", "p", []string{"t"}}, {"c", "", "p", []string{}}, {"c", "b", "p", []string{"t"}}, {"c", "a", "t", []string{"child"}},
	} {
		if got := listedBy(t, s, c.scope, c.of, c.parent); !slices.Equal(got, c.want) {
			t.Errorf("in %s by %s of %q: %v, want %v", c.scope, c.parent, c.of, got, c.want)
		}
	}
	// What is its namesake's in another scope stays, and a cascade goes on from scope to scope.
	want := []model.Key{thing("a", "t"), thing("b", "p"), thing("b", "t"), thing("c", "child"), thing("c", "t")}
	if diff := cmp.Diff(want, removeAt(t, s, "b", Thing, "p")); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
	// A reference may move from scope to scope, and then is where it is.
	create(t, s, at("b", Thing, "p", Item{}), at("c", Thing, "t", Item{Parent: "p", In: "b"}))
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Update(at("c", Thing, "t", Item{Parent: "p", In: "none"}), 0)
		wantCode(t, err, fault.Dangling)
		_, err = tx.Update(at("c", Thing, "t", Item{Parent: "p", In: "a"}), 0)
		return err
	})
	if got := removeAt(t, s, "b", Thing, "p"); len(got) != 1 {
		t.Errorf("gone: %v", got)
	}
	if diff := cmp.Diff([]model.Key{thing("a", "own"), thing("a", "p"), thing("c", "t")}, removeAt(t, s, "a", Thing, "p")); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
}

func thing(scope, name string) model.Key {
	return model.Key{Kind: Thing.Name, Scope: scope, Name: name}
}

// testElsewhereExpires checks that what has expired in one scope is no target in another,
// and takes what refers to it from there when its name is taken anew. What is revoked so
// is announced.
func testElsewhereExpires(t *testing.T, open Open) {
	s := one(t, open)
	past := time.Now().Add(-time.Hour).UnixMilli()
	create(t, s, at("a", Person, "p", Item{}), at("b", Badge, "b", Item{Person: "p", In: "a", Secret: "hush"}))
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Update(at("a", Person, "p", Item{Ends: past}), 0)
		return err
	})
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(at("b", Badge, "late", Item{Person: "p", In: "a"}))
		wantCode(t, err, fault.Dangling)
		if _, err := tx.Create(at("a", Person, "p", Item{N: 2})); err != nil {
			return err
		}
		_, err = tx.Get(Badge, "b", "b")
		wantCode(t, err, fault.NotFound)
		_, err = tx.Find(Badge, "b", "secret", "hush")
		wantCode(t, err, fault.NotFound)
		_, err = tx.Create(at("b", Badge, "b", Item{Person: "p", In: "a"}))
		return err
	})
	before := s.Revision()
	removeAt(t, s, "a", Person, "p")
	var announced []model.Key
	for events, err := range s.Watch(bounded(t), before) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			announced = append(announced, e.Key)
		}
		break
	}
	want := []model.Key{{Kind: "badge", Scope: "b", Name: "b"}, {Kind: "person", Scope: "a", Name: "p"}}
	if diff := cmp.Diff(want, announced); diff != "" {
		t.Errorf("announced (-want +got):\n%s", diff)
	}
}

// testElsewhereReopen checks that a store knows after a restart what refers where.
func testElsewhereReopen(t *testing.T, open Open) {
	s, reopen := open(t)
	if reopen == nil {
		t.Skip("the store keeps nothing")
	}
	create(t, s, at("a", Thing, "p", Item{}), at("b", Thing, "p", Item{}), at("a", Thing, "t", Item{Parent: "p", In: "b"}))
	s = reopen()
	if got := removeAt(t, s, "a", Thing, "p"); len(got) != 1 {
		t.Errorf("gone: %v", got)
	}
	if got := removeAt(t, s, "b", Thing, "p"); len(got) != 2 {
		t.Errorf("gone: %v", got)
	}
}
