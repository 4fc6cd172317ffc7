package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// exit ends the goroutine.
func exit() { runtime.Goexit() }

// collect watches from one revision to another, and returns the events.
func collect(t *testing.T, s store.Store, after, until uint64) []string {
	t.Helper()
	var got []string
	if after >= until {
		return got
	}
	for events, err := range s.Watch(bounded(t), after) {
		if err != nil {
			t.Fatalf("Watch: %v", err)
		}
		for _, e := range events {
			got = append(got, fmt.Sprintf("%d %s %s %s", e.Revision, e.Op, e.Key.Kind, e.Key.Name))
		}
		if events[0].Revision >= until {
			break
		}
	}
	return got
}

func testAnnouncements(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "box", Item{}))                                                               // 1
	create(t, s, res(Person, "p", Item{}))                                                              // 2
	silent := create(t, s, res(Badge, "b", Item{Person: "p"}), res(Quiet, "q", Item{}))                 // none
	must(t, s, func(tx store.Tx) error { _, err := tx.Update(res(Quiet, "q", Item{}), 0); return err }) // none
	must(t, s, func(store.Tx) error { return nil })                                                     // none
	if silent.Revision != 2 || s.Revision() != 2 || len(silent.Changes) != 2 {
		t.Errorf("an unannounced commit: %+v, store at %d", silent, s.Revision())
	}
	must(t, s, func(tx store.Tx) error { // 3
		_, err := tx.Update(res(Badge, "b", Item{Person: "p", N: 1}), 0)
		tx.Announce(model.Key{Kind: "badge", Scope: "s", Name: "b"}, store.Updated) // the update already announces this
		tx.Announce(model.Key{Kind: "quiet", Scope: "s", Name: "q"}, store.Created)
		return err
	})
	only := must(t, s, func(tx store.Tx) error { // 4
		tx.Announce(model.Key{Kind: "quiet", Scope: "s", Name: "q"}, store.Updated)
		return nil
	})
	if only.Revision != 4 {
		t.Errorf("a commit that only announces got revision %d", only.Revision)
	}
	if _, err := remove(bounded(t), s, Person, "p"); err != nil { // 5
		t.Fatal(err)
	}
	want := []string{
		"1 created box box", "2 created person p", "3 updated badge b", "3 created quiet q", "4 updated quiet q",
		"5 deleted badge b", "5 deleted person p",
	}
	if diff := cmp.Diff(want, collect(t, s, 0, 5)); diff != "" {
		t.Errorf("feed (-want +got):\n%s", diff)
	}
}

func testStamps(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Quiet, "before", Item{}))
	c := must(t, s, func(tx store.Tx) error {
		for _, r := range []*model.Resource{res(Quiet, "first", Item{}), res(Box, "box", Item{}), res(Quiet, "last", Item{})} {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	})
	create(t, s, res(Quiet, "after", Item{}))
	for name, want := range map[string]uint64{"before": 0, "first": 1, "last": 1, "after": 1} {
		if got := get(t, s, Quiet, name).Revision; got != want {
			t.Errorf("%s is stamped %d, want %d", name, got, want)
		}
	}
	for _, ch := range c.Changes {
		if ch.New.Revision != 1 {
			t.Errorf("change of %s is stamped %d", ch.New.Name, ch.New.Revision)
		}
	}
}

func testResume(t *testing.T, open Open) {
	s := one(t, open)
	var all []string
	for i := 1; i <= 5; i++ {
		create(t, s, res(Box, fmt.Sprint(i), Item{}))
		all = append(all, fmt.Sprintf("%d created box %d", i, i))
	}
	for after := range uint64(6) {
		got := collect(t, s, after, 5)
		if diff := cmp.Diff(all[after:], append([]string{}, got...)); diff != "" {
			t.Errorf("after %d (-want +got):\n%s", after, diff)
		}
	}
	// Events that happen while watching follow earlier ones.
	n := uint64(4)
	for events, err := range s.Watch(bounded(t), n) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if events[0].Revision != n {
			t.Fatalf("revision %d after %d", events[0].Revision, n-1)
		}
		if n == 8 {
			break
		}
		create(t, s, res(Box, fmt.Sprint(n+1), Item{}))
	}
}

func testWatchEnds(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{}))
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	var last error
	for events, err := range s.Watch(ctx, 0) {
		last = err
		if err == nil {
			n += len(events)
			cancel()
		}
	}
	cancel()
	if n != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d events, then %v", n, last)
	}
}

func testHistoryLost(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{}))
	create(t, s, res(Box, "b", Item{}))
	flood := must(t, s, func(tx store.Tx) error {
		for i := range History {
			tx.Announce(model.Key{Kind: "box", Scope: "s", Name: fmt.Sprint(i)}, store.Updated)
		}
		return nil
	})
	for _, after := range []uint64{0, flood.Revision - 2, flood.Revision + 1} {
		for events, err := range s.Watch(bounded(t), after) {
			lost, ok := errors.AsType[*store.HistoryLost](err)
			if !ok || lost.Oldest != flood.Revision {
				t.Fatalf("after %d: %d events, error %v", after, len(events), err)
			}
		}
	}
	for events, err := range s.Watch(bounded(t), flood.Revision-1) {
		if len(events) != History || err != nil {
			t.Errorf("the kept commit has %d events, error %v", len(events), err)
		}
		break
	}
}

func testFeedOrder(t *testing.T, open Open) {
	s := one(t, open)
	const writers, each = 8, 20
	ctx := bounded(t)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("%d-%d", w, i)
				if _, err := s.Update(ctx, model.Config, func(tx store.Tx) error {
					if _, err := tx.Create(res(Box, name, Item{})); err != nil {
						return err
					}
					_, err := tx.Create(res(Thing, name, Item{Box: name}))
					return err
				}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			seen := make(map[string]bool)
			next := uint64(1)
			for events, err := range s.Watch(ctx, 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if len(events) != 2 || events[0].Revision != next || events[1].Revision != next || events[0].Key.Name != events[1].Key.Name {
					t.Errorf("revision %d came as %+v", next, events)
					return
				}
				if seen[events[0].Key.Name] {
					t.Errorf("%s came twice", events[0].Key.Name)
				}
				seen[events[0].Key.Name] = true
				if next++; next > writers*each {
					return
				}
			}
		})
	}
	wg.Wait()
}
