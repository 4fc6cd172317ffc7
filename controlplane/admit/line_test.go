package admit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestLine: those to whom another writer came between write one after the other, also if one of them
// goes away while it waits, and writers of something else do not wait for them.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{lines: &lines{of: map[string]*line{}}}
		kind := &model.Kind{Name: "k"}
		a := Address{Kind: kind, Key: "a"}
		var counting sync.Mutex // those of two addresses count at once
		writing, most, done := 0, 0, 0
		hold := make(chan struct{})
		write := func() func() (Outcome, error) {
			first := true
			return func() (Outcome, error) {
				if first {
					first = false
					return Outcome{}, fault.New(fault.Conflict, "another came between")
				}
				counting.Lock()
				writing++
				most = max(most, writing)
				counting.Unlock()
				<-hold
				counting.Lock()
				defer counting.Unlock()
				writing--
				done++
				return Outcome{}, nil
			}
		}
		for range 5 {
			go func() {
				if _, err := g.again(t.Context(), a, write()); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := g.again(gone, a, write())
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who went away: %v", err)
		}
		if most != 1 {
			t.Errorf("%d write at once", most)
		}
		other := Address{Kind: kind, Key: "b"}
		go func() { _, _ = g.again(t.Context(), other, write()) }()
		synctest.Wait()
		if most != 2 {
			t.Error("who writes something else waits")
		}
		close(hold)
		synctest.Wait()
		if done != 6 || most != 2 || len(g.lines.of) != 0 {
			t.Errorf("%d have written, %d at once, and %d lines are left", done, most, len(g.lines.of))
		}
	})
}
