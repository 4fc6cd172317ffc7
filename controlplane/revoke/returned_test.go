package revoke

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// unsynced is a store with one commit that fails but is made all the same.
type unsynced struct {
	store.Store
	on      atomic.Bool
	told    chan struct{}
	durable atomic.Int64 // number of writes that had to survive a loss of power
}

func (s *unsynced) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if class == model.Config {
		s.durable.Add(1)
	}
	c, err := s.Store.Update(ctx, class, fn)
	if err == nil && s.on.CompareAndSwap(true, false) {
		close(s.told)
		return store.Commit{}, errors.New("fsync: input/output error")
	}
	return c, err
}

// TestReturnedFilterIsWrittenAgain: the commit that forgot a filter failed, but the next
// process may find it made. The filter has come back by then, and has a lease.
func TestReturnedFilterIsWrittenAgain(t *testing.T) {
	w := &world{t: t}
	disk := &unsynced{told: make(chan struct{})}
	w.tweak = func(o *Options) { disk.Store = o.Store; o.Store = disk }
	w.init(nil)
	f, _ := w.connect("i")
	until(t, "known", func() bool { return w.rows() == 1 })
	disk.on.Store(true)
	f.send(contract.FrameBye, nil)
	<-disk.told
	until(t, "gone", func() bool { return w.r.Stats().Links == 0 })
	before := disk.durable.Load()
	g, _ := w.connect("i")
	g.lease()
	if disk.durable.Load() == before {
		t.Error("a filter has a lease, and the loss of power may forget it")
	}
	if n := w.rows(); n != 1 {
		t.Errorf("a filter has a lease, and the next process knows %d filters", n)
	}
}

// TestSettleHearsOfANewFilter: Redis is away, and a revocation that was confirmed without
// it is asked for again while a filter joins. The answer comes once that filter believes no
// Redis either.
func TestSettleHearsOfANewFilter(t *testing.T) {
	m := miniredis.RunT(t)
	w := &world{t: t}
	planned := make(chan struct{})
	w.tweak = func(o *Options) {
		o.Planned = func(ctx context.Context, _ Node) {
			select {
			case <-planned:
			case <-ctx.Done():
			}
		}
	}
	w.init(client(t, m.Addr()))
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	token := w.mint("a", false)
	m.Close()
	if err := w.delete(token); err != nil { // no filter is known
		t.Fatal(err)
	}
	joined := async(func() error { w.connect("new"); return nil })
	until(t, "joining", func() bool { return w.r.Stats().KnownFilters == 1 })
	settled := async(func() error { return w.r.Settle(t.Context()) })
	until(t, "somebody waits", func() bool { return w.r.Stats().Pending == 1 })
	close(planned)
	<-joined
	if err := <-settled; err != nil {
		t.Error(err)
	}
	until(t, "nobody waits", func() bool { return w.r.Stats().Pending == 0 })
}

// TestThoseWhoWaitAreNoted: positions are noted in order, once for each matter, and within the
// bound.
func TestThoseWhoWaitAreNoted(t *testing.T) {
	r := &Revoker{unconfirmed: map[string]*outstanding{}}
	a, b := matterIn([]string{"a"}), matterIn([]string{"b"})
	for _, at := range []contract.Position{4, 2, 6, 4} {
		r.repend(at, a)
	}
	r.repend(4, b)
	if got, want := r.outstandingOf(a).at, []contract.Position{2, 4, 6}; !slices.Equal(got, want) || r.pending != 4 {
		t.Errorf("noted %v, want %v; %d are waited for", got, want, r.pending)
	}
	for i := range contract.Position(maxUnconfirmed) {
		r.repend(10+i, b)
	}
	if n := len(r.outstandingOf(b).at); r.pending != maxUnconfirmed || n != maxUnconfirmed-3 {
		t.Errorf("%d are noted and %d waited for, %d at most", n, r.pending, maxUnconfirmed)
	}
}
