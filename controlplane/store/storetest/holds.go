package storetest

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// testHolds checks references to several resources: all must exist, and none can be deleted
// while it is referenced.
func testHolds(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{}), res(Box, "b", Item{}), res(Thing, "t", Item{Boxes: []string{"b", "a", "b"}}))
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(res(Thing, "u", Item{Boxes: []string{"a", "none"}}))
		wantSubject(t, err, fault.Dangling, store.DanglingReference{Kind: Thing, Ref: "boxes", To: model.Key{Kind: "box", Scope: "s", Name: "none"}})
		return nil
	})
	for _, name := range []string{"a", "b"} {
		_, err := remove(bounded(t), s, Box, name)
		wantSubject(t, err, fault.Referenced, store.StillReferenced{Key: model.Key{Kind: "box", Scope: "s", Name: name}, By: "thing"})
	}
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Update(res(Thing, "t", Item{Boxes: []string{"b"}}), 0)
		return err
	})
	if _, err := remove(bounded(t), s, Box, "a"); err != nil {
		t.Errorf("deleting what is no longer held: %v", err)
	}
	if _, err := remove(bounded(t), s, Thing, "t"); err != nil {
		t.Error(err)
	}
	if _, err := remove(bounded(t), s, Box, "b"); err != nil {
		t.Errorf("after its holder went: %v", err)
	}
}
