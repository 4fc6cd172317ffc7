package storetest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// OpenStatus returns an empty status store, which the suite closes. reopen opens it again
// after that; it is nil for stores that forget everything.
type OpenStatus func(t *testing.T) (s store.Status, reopen func() store.Status)

// RunStatus runs the conformance suite of [store.Status].
func RunStatus(t *testing.T, open OpenStatus) {
	for name, test := range map[string]func(*testing.T, OpenStatus){
		"Rows": testStatusRows, "Limits": testStatusLimits, "Concurrent": testStatusConcurrent,
		"Closed": testStatusClosed, "Reopened": testStatusReopened,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func row(kind, scope, name, value string) store.StatusRow {
	return store.StatusRow{Key: model.Key{Kind: kind, Scope: scope, Name: name}, Value: []byte(value)}
}

func oneStatus(t *testing.T, open OpenStatus) store.Status {
	t.Helper()
	s, _ := open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func putStatus(t *testing.T, s store.Status, rows ...store.StatusRow) {
	t.Helper()
	if err := s.Put(bounded(t), rows); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

func wantStatus(t *testing.T, s store.Status, kind, scope string, want ...store.StatusRow) {
	t.Helper()
	got, err := s.List(bounded(t), kind, scope)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("rows of %s in %q (-want +got):\n%s", kind, scope, d)
	}
}

func testStatusRows(t *testing.T, open OpenStatus) {
	s := oneStatus(t, open)
	wantStatus(t, s, "k", store.AnyScope)
	value := []byte("one")
	putStatus(t, s, store.StatusRow{Key: model.Key{Kind: "k", Scope: "m", Name: "b"}, Value: value})
	value[0] = 'X'
	putStatus(t, s, row("k", "m", "a", "two"), row("k", "l", "c", "three"), row("k2", "m", "a", "four"), row("k", "m", "empty", ""))
	wantStatus(t, s, "k", "m", row("k", "m", "a", "two"), row("k", "m", "b", "one"), row("k", "m", "empty", ""))
	wantStatus(t, s, "k", store.AnyScope, row("k", "l", "c", "three"), row("k", "m", "a", "two"), row("k", "m", "b", "one"), row("k", "m", "empty", ""))
	putStatus(t, s, row("k", "m", "a", "newer"))
	got, err := s.Get(bounded(t), model.Key{Kind: "k", Scope: "m", Name: "a"})
	if err != nil || string(got) != "newer" {
		t.Errorf("Get: %q, %v", got, err)
	}
	gone := []model.Key{{Kind: "k", Scope: "m", Name: "a"}, {Kind: "k", Scope: "m", Name: "empty"}, {Kind: "k", Scope: "m", Name: "nobody"}}
	if err := s.Delete(bounded(t), gone); err != nil {
		t.Errorf("Delete: %v", err)
	}
	_, err = s.Get(bounded(t), gone[0])
	wantCode(t, err, fault.NotFound)
	wantStatus(t, s, "k", "m", row("k", "m", "b", "one"))
	wantStatus(t, s, "k2", "m", row("k2", "m", "a", "four"))
}

func testStatusLimits(t *testing.T, open OpenStatus) {
	s := oneStatus(t, open)
	large := store.StatusRow{Key: model.Key{Kind: "k", Name: "large"}, Value: bytes.Repeat([]byte{'x'}, store.MaxStatusRow+1)}
	wantCode(t, s.Put(bounded(t), []store.StatusRow{row("k", "", "a", "1"), large}), fault.TooLarge)
	wantStatus(t, s, "k", store.AnyScope)
	large.Value = large.Value[1:]
	putStatus(t, s, large)
	wantCode(t, s.Put(bounded(t), make([]store.StatusRow, store.MaxStatusBatch+1)), fault.TooLarge)
	wantCode(t, s.Delete(bounded(t), make([]model.Key, store.MaxStatusBatch+1)), fault.TooLarge)
}

// testStatusConcurrent writes from several goroutines while others read. Readers see a batch
// completely or not at all.
func testStatusConcurrent(t *testing.T, open OpenStatus) {
	s := oneStatus(t, open)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			scope := fmt.Sprintf("m%d", w)
			for i := range 25 {
				v := fmt.Sprint(i)
				if err := s.Put(t.Context(), []store.StatusRow{row("k", scope, "a", v), row("k", scope, "b", v)}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 25 {
				rows, err := s.List(t.Context(), "k", fmt.Sprintf("m%d", w))
				if err != nil || (len(rows) > 0 && (len(rows) != 2 || string(rows[0].Value) != string(rows[1].Value))) {
					t.Errorf("half a batch: %v %v", rows, err)
				}
			}
		})
	}
	wg.Wait()
	for w := range 4 {
		scope := fmt.Sprintf("m%d", w)
		wantStatus(t, s, "k", scope, row("k", scope, "a", "24"), row("k", scope, "b", "24"))
	}
}

func testStatusClosed(t *testing.T, open OpenStatus) {
	s, _ := open(t)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	key := model.Key{Kind: "k", Name: "a"}
	_, getErr := s.Get(bounded(t), key)
	_, listErr := s.List(bounded(t), "k", store.AnyScope)
	for _, err := range []error{s.Put(bounded(t), []store.StatusRow{{Key: key}}), getErr, listErr, s.Delete(bounded(t), []model.Key{key})} {
		wantCode(t, err, fault.Unavailable)
	}
}

func testStatusReopened(t *testing.T, open OpenStatus) {
	s, reopen := open(t)
	putStatus(t, s, row("k", "m", "a", "kept"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if reopen == nil {
		return // this store keeps nothing
	}
	s = reopen()
	wantStatus(t, s, "k", "m", row("k", "m", "a", "kept"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
