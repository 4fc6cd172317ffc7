package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// claimed is a resource whose writer says that it has been there for ever.
func claimed(k *model.Kind, name string, it Item) *model.Resource {
	r := res(k, name, it)
	r.Created, r.CreatedRevision, r.Taken = time.Unix(1, 0), 1, map[string]uint64{"label": 1}
	return r
}

// testOrder: of two rows the one with the lesser order was made first, whether that was announced
// or not, whatever writers say, and before and after the store is opened again.
func testOrder(t *testing.T, open Open) {
	s, reopen := open(t)
	check := func(when string, want ...model.Key) {
		t.Helper()
		var last uint64
		for _, key := range want {
			k := map[string]*model.Kind{Box.Name: Box, Quiet.Name: Quiet, Badge.Name: Badge}[key.Kind]
			r := get(t, s, k, key.Name)
			if r.Order <= last {
				t.Errorf("%s: %s %s has the order %d behind %d", when, key.Kind, key.Name, r.Order, last)
			}
			last = r.Order
		}
	}
	key := func(k *model.Kind, name string) model.Key { return model.Key{Kind: k.Name, Name: name} }
	early := claimed(Badge, "c", Item{Label: "C"})
	early.Order = 1
	var made []uint64
	must(t, s, func(tx store.Tx) error {
		for _, r := range []*model.Resource{res(Badge, "b", Item{Label: "B"}), res(Quiet, "z", Item{}), early} {
			r, err := tx.Create(r)
			if err != nil {
				return err
			}
			made = append(made, r.Order)
		}
		return nil
	})
	if !slices.IsSorted(made) || made[0] == 0 || made[1] == made[2] {
		t.Errorf("whoever makes rows is told the orders %v", made)
	}
	create(t, s, claimed(Badge, "a", Item{Label: "A"}))
	create(t, s, res(Box, "x", Item{Label: "X"}))
	check("made", key(Badge, "b"), key(Quiet, "z"), key(Badge, "c"), key(Badge, "a"), key(Box, "x"))
	must(t, s, func(tx store.Tx) error {
		older := claimed(Badge, "a", Item{Label: "D"})
		older.Order = 1
		_, err := tx.Update(older, 0)
		return err
	})
	if _, err := remove(bounded(t), s, Box, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := remove(bounded(t), s, Badge, "b"); err != nil {
		t.Fatal(err)
	}
	create(t, s, claimed(Badge, "b", Item{Label: "B"}))
	want := []model.Key{key(Quiet, "z"), key(Badge, "c"), key(Badge, "a"), key(Badge, "b")}
	check("written, and made again", want...)
	if reopen == nil {
		return
	}
	s = reopen()
	create(t, s, claimed(Quiet, "a", Item{}))
	check("opened again", append(want, key(Quiet, "a"))...)
}

// testSince: the store says since when there is a row and since when it has its unique
// values, whatever writers say, and before and after the store is opened again.
func testSince(t *testing.T, open Open) {
	s, reopen := open(t)
	type since struct{ Row, Value uint64 }
	check := func(when, name string, want since) {
		t.Helper()
		r := get(t, s, Box, name)
		if got := (since{r.Since(""), r.Since("label")}); got != want || r.CreatedRevision != want.Row {
			t.Errorf("%s: %s is there, and has its label, since %+v, want %+v", when, name, got, want)
		}
	}
	update := func(name string, it Item) {
		t.Helper()
		must(t, s, func(tx store.Tx) error {
			_, err := tx.Update(claimed(Box, name, it), 0)
			return err
		})
	}
	create(t, s, res(Person, "first", Item{}))
	create(t, s, res(Box, "a", Item{Label: "A"}))
	create(t, s, claimed(Box, "b", Item{Label: "B"}))
	check("made", "a", since{2, 2})
	check("made", "b", since{3, 3})
	update("a", Item{Label: "A", N: 1})
	check("written", "a", since{2, 2})
	update("b", Item{Label: "C"})
	check("its label changed", "b", since{3, 5})
	update("b", Item{Label: "C", N: 2})
	check("written again", "b", since{3, 5})
	update("b", Item{})
	update("b", Item{Label: "C"})
	check("its label given up and taken back", "b", since{3, 8})
	if _, err := remove(bounded(t), s, Box, "a"); err != nil {
		t.Fatal(err)
	}
	create(t, s, claimed(Box, "a", Item{Label: "A"}))
	check("deleted and made again", "a", since{10, 10})
	must(t, s, func(tx store.Tx) error {
		if _, err := tx.Create(claimed(Box, "c", Item{Label: "D"})); err != nil {
			return err
		}
		_, err := tx.Update(claimed(Box, "c", Item{Label: "E"}), 0)
		return err
	})
	check("made and written at once", "c", since{11, 11})
	create(t, s, res(Quiet, "q", Item{}))
	if q := get(t, s, Quiet, "q"); q.CreatedRevision != 12 || q.Revision != 11 {
		t.Errorf("what announces nothing is there since %d, at revision %d", q.CreatedRevision, q.Revision)
	}
	if reopen == nil {
		return
	}
	before := get(t, s, Box, "b")
	s = reopen()
	if diff := cmp.Diff(before, get(t, s, Box, "b"), cmp.Comparer(func(a, b *model.Kind) bool { return a == b })); diff != "" {
		t.Errorf("after reopening (-want +got):\n%s", diff)
	}
	update("b", Item{Label: "C", N: 3})
	check("written after reopening", "b", since{3, 8})
	check("reopened", "a", since{10, 10})
}
