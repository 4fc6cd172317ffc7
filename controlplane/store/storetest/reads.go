package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

func testLists(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s,
		res(Box, "b", Item{Tags: []string{"x", "y", "x"}}), res(Box, "a", Item{Tags: []string{"x"}}), res(Box, "c", Item{Tags: []string{"y"}}),
		res(Box, "B", Item{}), res(Box, "a\x00", Item{Tags: []string{"x"}}), res(Box, "ä", Item{Tags: []string{"x\x00"}}),
		res(Thing, "t2", Item{Box: "a"}), res(Thing, "t1", Item{Box: "a"}), res(Thing, "t3", Item{Box: "b"}))
	create(t, s, &model.Resource{Kind: Box, Scope: "s2", Name: "z", Spec: &Item{Tags: []string{"x"}}})
	for _, c := range []struct {
		name string
		kind *model.Kind
		q    store.Query
		want []string
		n    int
	}{
		{"all, by bytes of the name", Box, store.Query{}, []string{"B", "a", "a\x00", "b", "c", "ä"}, 6},
		{"first page", Box, store.Query{Limit: 2}, []string{"B", "a"}, 6},
		{"next page", Box, store.Query{Limit: 2, After: "a"}, []string{"a\x00", "b"}, 6},
		{"after a name that is absent", Box, store.Query{After: "aa"}, []string{"b", "c", "ä"}, 6},
		{"after the end", Box, store.Query{After: "ä"}, []string{}, 6},
		{"tag", Box, store.Query{Index: "tags", Value: "x"}, []string{"a", "a\x00", "b"}, 3},
		{"tag, next page", Box, store.Query{Index: "tags", Value: "x", After: "a", Limit: 1}, []string{"a\x00"}, 3},
		{"tag of nobody", Box, store.Query{Index: "tags", Value: "z"}, []string{}, 0},
		{"reference", Thing, store.Query{Index: "box", Value: "a"}, []string{"t1", "t2"}, 2},
		{"behind some", Box, store.Query{Skip: 2, Limit: 2}, []string{"a\x00", "b"}, 6},
		{"behind some, to the end", Box, store.Query{Skip: 4}, []string{"c", "ä"}, 6},
		{"behind all", Box, store.Query{Skip: 6}, []string{}, 6},
		{"behind some after a name", Box, store.Query{After: "a", Skip: 1, Limit: 1}, []string{"b"}, 6},
		{"part of a name", Box, store.Query{Part: "a"}, []string{"a", "a\x00"}, 2},
		{"part of a name, page", Box, store.Query{Part: "a", Skip: 1, Limit: 1}, []string{"a\x00"}, 2},
		{"part of a name with a zero", Box, store.Query{Part: "\x00"}, []string{"a\x00"}, 1},
		{"part of a name beyond ASCII", Box, store.Query{Part: "ä"}, []string{"ä"}, 1},
		{"a part is no pattern", Box, store.Query{Part: "%"}, []string{}, 0},
		{"tag, behind some", Box, store.Query{Index: "tags", Value: "x", Skip: 1}, []string{"a\x00", "b"}, 3},
		{"tag and part of a name", Box, store.Query{Index: "tags", Value: "x", Part: "b"}, []string{"b"}, 1},
		{"reference and part of a name", Thing, store.Query{Index: "box", Value: "a", Part: "2"}, []string{"t2"}, 1},
		{"reference, page", Thing, store.Query{Index: "box", Value: "a", After: "t1", Limit: 5}, []string{"t2"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.Scope = "s"
			check := func(r store.Reader) error {
				list, err := r.List(c.kind, c.q)
				if diff := cmp.Diff(c.want, names(list)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				n, cerr := r.Count(c.kind, c.q)
				if n != c.n {
					t.Errorf("Count = %d, want %d", n, c.n)
				}
				return errors.Join(err, cerr)
			}
			view(t, s, check)
			must(t, s, func(tx store.Tx) error { return check(tx) })
		})
	}
	must(t, s, func(tx store.Tx) error {
		_, err := tx.List(Box, store.Query{Scope: "s", Index: "label", Value: "x"})
		wantCode(t, err, fault.Internal)
		for _, q := range []store.Query{{Scope: "s", Limit: -1}, {Scope: "s", Skip: -1}} {
			_, err = tx.List(Box, q)
			wantCode(t, err, fault.Internal)
		}
		_, err = tx.Update(res(Box, "a", Item{Tags: []string{"y"}}), 0)
		return err
	})
	view(t, s, func(r store.Reader) error {
		list, err := r.List(Box, store.Query{Scope: "s", Index: "tags", Value: "y"})
		if diff := cmp.Diff([]string{"a", "b", "c"}, names(list)); diff != "" {
			t.Errorf("after update (-want +got):\n%s", diff)
		}
		return err
	})
}

func testNamed(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "b", Item{N: 2}), res(Box, "a\x00", Item{}), res(Box, "c", Item{N: 3}), res(Box, "B", Item{}), res(Box, "ä", Item{}))
	create(t, s, &model.Resource{Kind: Box, Scope: "s2", Name: "z", Spec: &Item{}}, res(Person, "over", Item{Ends: past()}), res(Person, "stays", Item{}))
	for _, c := range []struct {
		kind      *model.Kind
		ask, want []string
	}{
		{Box, []string{"c", "ä", "none", "a\x00", "B", "c"}, []string{"B", "a\x00", "c", "ä"}},
		{Box, []string{"z", "a", "%"}, []string{}},
		{Box, nil, []string{}},
		{Person, []string{"over", "stays"}, []string{"stays"}},
	} {
		check := func(r store.Reader) error {
			list, err := r.Named(c.kind, "s", c.ask)
			if diff := cmp.Diff(c.want, names(list)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.ask, diff)
			}
			for _, found := range list {
				alone, failed := r.Get(c.kind, "s", found.Name)
				if diff := cmp.Diff(alone, found, cmpopts.IgnoreFields(model.Resource{}, "Kind")); diff != "" || failed != nil {
					t.Errorf("%s (-alone +named): %s %v", found.Name, diff, failed)
				}
			}
			return err
		}
		view(t, s, check)
		must(t, s, func(tx store.Tx) error { return check(tx) })
	}
}

// past returns an expiry that is over.
func past() int64 { return time.Now().Add(-time.Hour).UnixMilli() }

func testExpiredAbsent(t *testing.T, open Open) {
	s := one(t, open)
	later := time.Now().Add(time.Hour).UnixMilli()
	create(t, s, res(Person, "p", Item{}), res(Badge, "live", Item{Person: "p", Secret: "1", Ends: later}),
		res(Badge, "over", Item{Person: "p", Secret: "2", Ends: past()}), res(Person, "gone", Item{Ends: past()}))
	check := func(r store.Reader) error {
		_, err := r.Get(Badge, "s", "over")
		wantCode(t, err, fault.NotFound)
		_, err = r.Find(Badge, "s", "secret", "2")
		wantCode(t, err, fault.NotFound)
		for _, q := range []store.Query{{Scope: "s"}, {Scope: "s", Index: "person", Value: "p"}} {
			list, err := r.List(Badge, q)
			n, cerr := r.Count(Badge, q)
			if len(list) != 1 || list[0].Name != "live" || n != 1 || err != nil || cerr != nil {
				t.Errorf("%+v: %v, %d, %v, %v", q, names(list), n, err, cerr)
			}
		}
		return nil
	}
	view(t, s, check)
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Update(res(Badge, "over", Item{}), 0)
		wantCode(t, err, fault.NotFound)
		wantCode(t, tx.Delete(Badge, "s", "over", 0), fault.NotFound)
		_, err = tx.Create(res(Badge, "x", Item{Person: "gone"}))
		wantCode(t, err, fault.Dangling)
		// Neither its secret nor its name is reserved.
		if _, err := tx.Create(res(Badge, "y", Item{Secret: "2"})); err != nil {
			t.Errorf("secret of an expired badge: %v", err)
		}
		r, err := tx.Create(res(Badge, "over", Item{N: 5}))
		if err != nil || r.Version != 1 {
			t.Errorf("name of an expired badge: %+v, %v", r, err)
		}
		return nil
	})
	if get(t, s, Badge, "over") == nil || get(t, s, Badge, "y") == nil {
		t.Error("the new badges are absent")
	}
}

func testSweep(t *testing.T, open Open) {
	s := one(t, open)
	soon := time.Now().Add(30 * time.Millisecond).UnixMilli()
	c := create(t, s, res(Person, "p", Item{Ends: soon}), res(Badge, "b", Item{Person: "p"}), res(Badge, "own", Item{Ends: soon}),
		res(Person, "stays", Item{}))
	for events, err := range s.Watch(bounded(t), c.Revision) {
		if err != nil {
			t.Fatalf("nothing was swept: %v", err)
		}
		// The live badge is deleted with its person and is revoked. The badge that ended by
		// itself revokes nothing.
		got := make(map[string]store.Op)
		for _, e := range events {
			got[e.Key.Kind+" "+e.Key.Name] = e.Op
		}
		if diff := cmp.Diff(map[string]store.Op{"person p": store.Deleted, "badge b": store.Deleted}, got); diff != "" {
			t.Errorf("announced (-want +got):\n%s", diff)
		}
		break
	}
	if get(t, s, Badge, "b") != nil || get(t, s, Person, "stays") == nil {
		t.Error("swept too much or too little")
	}
}

func testConsistentReaders(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{}), res(Box, "b", Item{}))
	ctx := bounded(t)
	stop := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := s.Update(ctx, model.Config, func(tx store.Tx) error {
				for _, name := range []string{"a", "b"} {
					if _, err := tx.Update(res(Box, name, Item{N: n, Label: fmt.Sprintf("%s%d", name, n)}), 0); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				failed <- err
				return
			}
		}
	}()
	last := uint64(0)
	for range 200 {
		view(t, s, func(r store.Reader) error {
			a, aerr := r.Get(Box, "s", "a")
			list, lerr := r.List(Box, store.Query{Scope: "s"})
			b, berr := r.Get(Box, "s", "b")
			if err := errors.Join(aerr, lerr, berr); err != nil {
				return err
			}
			if a.Revision != b.Revision || list[0].Version != a.Version || a.Revision != r.Revision() {
				t.Errorf("one view saw a at %d, b at %d, revision %d", a.Revision, b.Revision, r.Revision())
			}
			if r.Revision() < last {
				t.Errorf("revision went back from %d to %d", last, r.Revision())
			}
			last = r.Revision()
			return nil
		})
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}
