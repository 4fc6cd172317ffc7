package delivery

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// failing lets no transaction commit that changes a row of a kind and a name, while broken is set.
func (w *world) failing(kind *model.Kind, scope, name string, broken *atomic.Bool, why error) {
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
					return why
				}
			}
			return nil
		})
	})
}

var errFull = errors.New("the disk is full")

// TestSinkSetsAPortalAside: a portal of which a row cannot be read is tried again by itself: the sink sends what
// happens at others meanwhile.
func TestSinkSetsAPortalAside(t *testing.T) {
	w := newWorld(t)
	c, said := newCollector(t, "127.0.0.1:0"), &lines{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	broken := &atomic.Bool{}
	broken.Store(true)
	w.failing(cloud.SinkPositions, "", "bad", broken, store.ErrUnreadable)
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	w.happen("bad", 0, 1)
	<-w.held // it has failed until the waits are long
	w.happen("good", 0, 3)
	until(t, "another portal", func() bool { return w.sent(c, "good") == 3 })
	broken.Store(false)
	w.resume()
	until(t, "the portal", func() bool { return w.sent(c, "bad") == 1 && slices.Contains(c.events(), "bad-0") })
	until(t, "the line", func() bool { return said.count("a syslog sink gets events of an audit log again") == 1 })
	if n := w.engine.SinkStats()[0].Failures; n < 2 {
		t.Errorf("%d tries have failed", n)
	}
	if got := without(c.events(), "good-0", "good-1", "good-2"); !slices.Equal(got, []string{"bad-0"}) {
		t.Errorf("%v arrived", got)
	}
}

// unstored is a world with a sink that has got the event a-0, which cannot be stored while broken is set. The
// sink waits for its next try.
func unstored(t *testing.T) (w *world, c *collector, broken *atomic.Bool, stop func()) {
	t.Helper()
	w, c, broken = newWorld(t), newCollector(t, "127.0.0.1:0"), &atomic.Bool{}
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	w.failing(cloud.SinkPositions, "", "", broken, errFull)
	stop = w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	broken.Store(true)
	w.happen("a", 0, 1)
	<-w.held // it has failed until the waits are long
	until(t, "the first", func() bool { return len(c.events()) > 0 })
	return w, c, broken, stop
}

// TestSinkWhileNothingCanBeStored: while it cannot be stored what a sink has got, as with a full disk, it gets
// nothing of any portal; afterwards it gets everything once.
func TestSinkWhileNothingCanBeStored(t *testing.T) {
	w, c, broken, _ := unstored(t)
	want := []string{"a-0"}
	for _, portal := range []string{"b", "c", "d", "e"} {
		want = append(want, w.happen(portal, 0, 1)...)
	}
	w.resume()
	<-w.held
	if got := c.events(); !slices.Equal(got, want[:1]) {
		t.Fatalf("%v arrived while nothing could be stored", got)
	}
	broken.Store(false)
	w.resume()
	for _, portal := range []string{"a", "b", "c", "d", "e"} {
		until(t, portal, func() bool { return w.sent(c, portal) == 1 })
	}
	until(t, "all", func() bool { return len(c.events()) >= len(want) })
	if got := slices.Sorted(slices.Values(c.events())); !slices.Equal(got, want) {
		t.Errorf("%v arrived, want %v", got, want)
	}
}

// TestSinkStoresAtItsEnd: what a sink has got and could not be stored has a last try when the engine ends.
func TestSinkStoresAtItsEnd(t *testing.T) {
	w, c, broken, stop := unstored(t)
	broken.Store(false)
	stop()
	w.start()
	w.happen("a", 1, 2)
	until(t, "the next", func() bool { return w.sent(c, "a") == 2 && len(c.events()) >= 2 })
	if got := c.events(); !slices.Equal(got, []string{"a-0", "a-1"}) {
		t.Errorf("%v arrived", got)
	}
}

// TestSinkStoresNothingOlder: what is stored late does not take back what another process has stored meanwhile.
func TestSinkStoresNothingOlder(t *testing.T) {
	w, c, broken, _ := unstored(t)
	w.happen("a", 1, 6)
	w.write(func(tx store.Tx) error {
		return set(tx, cloud.SinkPositions, scopeOf(w.sinks[0].String()), "a", &cloud.SinkPosition{Done: 5})
	})
	broken.Store(false)
	w.resume()
	until(t, "the last", func() bool { return w.sent(c, "a") == 6 && len(c.events()) >= 2 })
	if got := c.events(); !slices.Equal(got, []string{"a-0", "a-5"}) {
		t.Errorf("%v arrived", got)
	}
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
	w.failing(cloud.Events, "a", "", broken, errFull)
	w.start()
	w.hour()
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

// blind is a store that cannot be read while it is said so.
type blind struct {
	store.Store
	is *atomic.Bool
}

func (b blind) View(ctx context.Context, fn func(store.Reader) error) error {
	if b.is.Load() {
		return errors.New("it cannot be read")
	}
	return b.Store.View(ctx, fn)
}

// TestSinkLooksEverywhereAgain: a sink that could not look at all portals when it began does so later: what waits
// does not wait for the next event of its portal.
func TestSinkLooksEverywhereAgain(t *testing.T) {
	w, is := blankWorld(t), &atomic.Bool{}
	w.open(blind{memstore.Open(memstore.Options{Now: w.time}), is})
	c := newCollector(t, "127.0.0.1:0")
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	stop()
	want := w.happen("p", 0, 2)
	said := &lines{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	is.Store(true)
	w.launch()
	until(t, "the failure", func() bool { return said.count("a syslog sink gets no events now") == 1 })
	is.Store(false)
	until(t, "what waits", func() bool {
		select {
		case <-w.held: // it has failed until the waits were long
			w.resume()
		default:
		}
		return slices.Equal(c.events(), want)
	})
}
