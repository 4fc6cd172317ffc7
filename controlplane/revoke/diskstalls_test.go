package revoke

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// stalledStore is a store whose disk takes no writes for a while; it can be read.
type stalledStore struct {
	store.Store
	stalled atomic.Pointer[chan struct{}]
}

// Update implements [store.Store].
func (s *stalledStore) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if c := s.stalled.Load(); c != nil {
		<-*c
	}
	return s.Store.Update(ctx, class, fn)
}

// stall has all writes wait that begin from now on, and returns what ends that.
func (s *stalledStore) stall() (goOn func()) {
	c := make(chan struct{})
	s.stalled.Store(&c)
	return func() {
		if s.stalled.CompareAndSwap(&c, nil) {
			close(c)
		}
	}
}

// onAStall runs a test in a virtual world in which a filter has left a link, and the disk
// stalls while that is stored.
func onAStall(t *testing.T, fn func(t *testing.T, w *world, f *fake, log contract.LogID, goOn func())) {
	t.Helper()
	disk := &stalledStore{}
	virtually(t, func(o *Options) { disk.Store, o.Store = o.Store, disk }, func(t *testing.T, w *world, _ *scripted) {
		w.settles(t)
		f, wel := w.pipe("node", contract.Hello{Instance: instance(firstProcess, "i")})
		f.lease()
		goOn := disk.stall()
		t.Cleanup(goOn)
		f.cut()
		fn(t, w, f, wel.Log, goOn)
	})
}

const firstProcess = "aaaaaaaaaaaaaaaaaaaaaaaaaa"

// A filter that was stored a short time ago gets its link back at once while the disk
// stalls.
func TestStoredFilterWaitsForNoDisk(t *testing.T) {
	onAStall(t, func(t *testing.T, w *world, f *fake, log contract.LogID, _ func()) {
		begun := time.Now()
		g, again := w.pipe("node", contract.Hello{Instance: instance(firstProcess, "i"), Log: log, Applied: f.first.To})
		if again.From != f.first.To {
			t.Errorf("it begins anew: %+v", again)
		}
		g.lease()
		if d := time.Since(begun); d != 0 {
			t.Errorf("welcomed after %v", d)
		}
	})
}

// Who waits for a write of the known filters gets an answer while the disk stalls, and the
// write is made when the disk goes on.
func TestWaitForAStalledDiskIsBounded(t *testing.T) {
	for name, forget := range map[string]func(r *Revoker) error{
		"a node is gone": func(r *Revoker) error { return r.Gone("node") },
		"a process has ended": func(r *Revoker) error {
			return r.Ended(Node{ID: "node"}, contract.Ended{Processes: []string{firstProcess}, Gone: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			onAStall(t, func(t *testing.T, w *world, _ *fake, _ contract.LogID, goOn func()) {
				begun := time.Now()
				if err := forget(w.r); !fault.Is(err, fault.Unavailable) {
					t.Errorf("answered %v", err)
				}
				if d := time.Since(begun); d > storeTimeout {
					t.Errorf("answered after %v", d)
				}
				goOn()
				synctest.Wait()
				if n := w.rows(); n != 0 {
					t.Errorf("%d filters are stored", n)
				}
			})
		})
	}
	t.Run("a new filter comes", func(t *testing.T) {
		onAStall(t, func(t *testing.T, w *world, _ *fake, _ contract.LogID, goOn func()) {
			begun := time.Now()
			if w.linked("j") {
				t.Error("it is linked, and the next process would not know it")
			}
			if d := time.Since(begun); d > storeTimeout {
				t.Errorf("turned away after %v", d)
			}
			goOn()
			if !w.linked("j") {
				t.Error("it is not linked when the disk goes on")
			}
		})
	})
}

// linked reports whether a filter is welcomed.
func (w *world) linked(instance string) bool {
	w.t.Helper()
	f := w.dial("node")
	body, err := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: instance})
	if err != nil {
		w.t.Fatal(err)
	}
	f.send(contract.FrameHello, body)
	kind, _, err := contract.ReadFrame(f.in)
	return err == nil && kind == contract.FrameWelcome
}

// An end is bounded by its context while the disk stalls, and counts as no end in good
// order, also when the disk goes on afterwards.
func TestEndWaitsForNoStalledDisk(t *testing.T) {
	for name, busy := range map[string]bool{"a write had begun": true, "none had begun": false} {
		t.Run(name, func(t *testing.T) {
			onAStall(t, func(t *testing.T, w *world, _ *fake, _ contract.LogID, goOn func()) {
				if !busy { // the stall begins with the end
					goOn()
					synctest.Wait()
					goOn = w.r.o.Store.(*stalledStore).stall()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				begun := time.Now()
				if err := w.r.Close(ctx); !errors.Is(err, errEndSlow) {
					t.Errorf("ended with %v", err)
				}
				if d := time.Since(begun); d != 3*time.Second {
					t.Errorf("ended after %v", d)
				}
				goOn()
				synctest.Wait()
				if w.ended() {
					t.Error("the end is stored")
				}
			})
		})
	}
}

// ended reports whether the store says that the last process has ended in good order.
func (w *world) ended() bool {
	w.t.Helper()
	var e Epoch
	if err := w.store.View(context.Background(), func(r store.Reader) (err error) {
		e, err = storedEpoch(r)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return e.Clean
}
