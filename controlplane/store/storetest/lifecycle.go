package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

func testClosed(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{}))
	watching, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var last error
		for _, err := range s.Watch(t.Context(), 0) {
			if err == nil {
				close(watching)
			}
			last = err
		}
		ended <- last
	}()
	<-watching
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-ended, fault.Unavailable)
	_, err := s.Update(bounded(t), model.Config, func(store.Tx) error {
		t.Error("a closed store ran a transaction")
		return nil
	})
	wantCode(t, err, fault.Unavailable)
	wantCode(t, s.View(bounded(t), func(store.Reader) error {
		t.Error("a closed store ran a view")
		return nil
	}), fault.Unavailable)
	for _, err := range s.Watch(bounded(t), 0) {
		wantCode(t, err, fault.Unavailable)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func testReopen(t *testing.T, open Open) {
	s, reopen := open(t)
	create(t, s, res(Box, "a", Item{Label: "L"}), res(Person, "p", Item{}), res(Badge, "b", Item{Person: "p", Secret: "hush"}))
	create(t, s, res(Thing, "t", Item{Box: "a"}))
	if reopen == nil {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	before := get(t, s, Badge, "b")
	s = reopen()
	if diff := cmp.Diff(before, get(t, s, Badge, "b"), cmp.Comparer(func(a, b *model.Kind) bool { return a == b })); diff != "" {
		t.Errorf("after reopening (-want +got):\n%s", diff)
	}
	if s.Revision() != 2 {
		t.Errorf("revision %d", s.Revision())
	}
	create(t, s, res(Box, "c", Item{}))
	want := []string{"1 created box a", "1 created person p", "2 created thing t", "3 created box c"}
	if diff := cmp.Diff(want, collect(t, s, 0, 3)); diff != "" {
		t.Errorf("feed (-want +got):\n%s", diff)
	}
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(res(Badge, "x", Item{Secret: "hush"}))
		wantCode(t, err, fault.Unique)
		wantCode(t, tx.Delete(Box, "s", "a", 0), fault.Referenced)
		return nil
	})
}
