package delivery

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestSpoiltLeases: leases whose rows cannot be read at the start of a process hold up neither webhook nor sink.
func TestSpoiltLeases(t *testing.T) {
	w, spoilt := onDisk(t)
	said := &lines{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	r, c := newReceiver(t), newCollector(t, "127.0.0.1:0")
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	w.hook("p", r, true)
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	want := w.happen("p", 0, 2)
	until(t, "the webhook", w.at("p", 2))
	until(t, "the sink", func() bool { return w.sent(c, "p") == 2 })
	stop()
	spoilt(lease.Leases, "audit-log-webhook/p")
	spoilt(lease.Leases, "audit-log-syslog/"+scopeOf(w.sinks[0].String()))
	w.start()
	want = append(want, w.happen("p", 2, 5)...)
	until(t, "the webhook", w.at("p", 5))
	until(t, "the sink", func() bool { return w.sent(c, "p") == 5 && len(c.events()) >= 5 })
	if hooked, sunk := r.events(), c.events(); !slices.Equal(hooked, want) || !slices.Equal(sunk, want) {
		t.Errorf("%v and %v arrived", hooked, sunk)
	}
	until(t, "the log", func() bool { return said.count(anew) == 2 })
}

// spoilingTx lets the rows of leases be unreadable while that is so, and until somebody removes one.
type spoilingTx struct {
	store.Tx
	spoilt *atomic.Bool
}

func (t *spoilingTx) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	res, err := t.Tx.Get(k, scope, name)
	if err == nil && k == lease.Leases && t.spoilt.Load() {
		bad := *res
		return nil, store.Unreadable(&bad, 0, errors.New("no JSON"))
	}
	return res, err
}

func (t *spoilingTx) Delete(k *model.Kind, scope, name string, version uint64) error {
	err := t.Tx.Delete(k, scope, name, version)
	if err == nil && k == lease.Leases {
		t.spoilt.Store(false)
	}
	return err
}

// TestLeaseSpoiltMeanwhile: a sink whose lease cannot be read any more takes it anew. It is no failure of the
// portals, which are not left alone for it, and what it has sent is not sent again.
func TestLeaseSpoiltMeanwhile(t *testing.T) {
	w := newWorld(t)
	said, spoilt := &lines{}, &atomic.Bool{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	c := newCollector(t, "127.0.0.1:0")
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		return w.gate.Write(ctx, class, func(tx store.Tx) error { return fn(&spoilingTx{tx, spoilt}) })
	})
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	want := w.happen("a", 0, 1)
	until(t, "the first", func() bool { return w.sent(c, "a") == 1 })
	spoilt.Store(true)
	portals := []string{"a", "b", "c", "d"}
	for _, portal := range portals {
		want = append(want, w.happen(portal, 1, 3)...)
	}
	for _, portal := range portals {
		until(t, portal, func() bool { return w.sent(c, portal) == map[bool]uint64{true: 3, false: 2}[portal == "a"] })
	}
	until(t, "what was sent has come", func() bool { return len(c.events()) >= len(want) })
	got := c.events()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || spoilt.Load() {
		t.Errorf("%v arrived, want %v", got, want)
	}
	if n := said.count("gets no events of an audit log now"); n > 0 {
		t.Errorf("%d portals were left alone", n)
	}
}
