package delivery

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// failing lets no transaction commit that changes a row of a kind and a name, while broken is set.
func (w *world) failing(kind *model.Kind, scope, name string, broken *atomic.Bool) {
	inner := w.writer
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		return inner.Write(ctx, class, func(tx store.Tx) error {
			if err := fn(tx); err != nil || !broken.Load() {
				return err
			}
			for _, c := range tx.Changes() {
				res := c.New
				if res == nil {
					res = c.Old
				}
				if res.Kind == kind && (scope == "" || res.Scope == scope) && (name == "" || res.Name == name) {
					return errors.New("it cannot be stored")
				}
			}
			return nil
		})
	})
}

// TestSinkSetsAPortalAside: a portal of which nothing can be stored is tried again by itself: the sink sends what
// happens at others meanwhile.
func TestSinkSetsAPortalAside(t *testing.T) {
	w := newWorld(t)
	c := newCollector(t, "127.0.0.1:0")
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	broken := &atomic.Bool{}
	broken.Store(true)
	w.failing(cloud.SinkPositions, "", "bad", broken)
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	w.happen("bad", 0, 1)
	<-w.held // it has failed until the waits are long
	w.happen("good", 0, 3)
	until(t, "another portal", func() bool { return w.sent(c, "good") == 3 })
	broken.Store(false)
	w.resume()
	until(t, "the portal", func() bool { return w.sent(c, "bad") == 1 })
}

// TestTidyingGoesOn: a portal whose events cannot be removed keeps those of no other one.
func TestTidyingGoesOn(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	for _, portal := range []string{"a", "b", "c"} {
		w.hook(portal, r, false)
		w.happen(portal, 0, 2)
	}
	w.pass(cloud.KeptEvents + time.Hour)
	broken := &atomic.Bool{}
	broken.Store(true)
	w.failing(cloud.Events, "a", "", broken)
	w.start()
	until(t, "the others", func() bool { return len(w.kept("b"))+len(w.kept("c")) == 0 })
	if n := len(w.kept("a")); n != 2 {
		t.Errorf("%d are left", n)
	}
}

// TestWaitingWithSpoiltRows: the figures are there also if it cannot be read how far some logs are.
func TestWaitingWithSpoiltRows(t *testing.T) {
	w, spoilt := onDisk(t)
	r := newReceiver(t)
	for _, portal := range []string{"a", "b", "c"} {
		w.hook(portal, r, false)
		w.happen(portal, 0, 2)
	}
	spoilt(cloud.Positions, "a")
	spoilt(cloud.Deliveries, "b")
	e := &Engine{Options: Options{Store: w.s}}
	events, inactive, err := e.Waiting(t.Context())
	if got := []uint64{events, inactive}; err != nil || !slices.Equal(got, []uint64{1 + 2 + 2, 0}) {
		t.Errorf("%v, %v", got, err)
	}
}
