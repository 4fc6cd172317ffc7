package revoke

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// unsynced is a store with one commit that fails but is made all the same.
type unsynced struct {
	store.Store
	on      atomic.Bool
	durable atomic.Int64 // number of writes that had to survive a loss of power
}

func (s *unsynced) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if class == model.Config {
		s.durable.Add(1)
	}
	c, err := s.Store.Update(ctx, class, fn)
	if err == nil && s.on.CompareAndSwap(true, false) {
		return store.Commit{}, errors.New("fsync: input/output error")
	}
	return c, err
}

// TestReturnedFilterIsWrittenAgain: the commit that forgot a filter failed, but the next
// process may find it made. The filter has come back by then, and has a lease.
func TestReturnedFilterIsWrittenAgain(t *testing.T) {
	disk := &unsynced{}
	aloneWith(t, func(o *Options) { disk.Store = o.Store; o.Store = disk }, func(t *testing.T, w *world) {
		f, _ := w.connect("i")
		if n := w.rows(); n != 1 {
			t.Fatalf("%d filters are stored", n)
		}
		disk.on.Store(true)
		f.send(contract.FrameBye, nil)
		synctest.Wait()
		if disk.on.Load() || w.r.Stats().Links != 0 {
			t.Fatalf("no commit that failed, or a link: %+v", w.r.Stats())
		}
		before := disk.durable.Load()
		g, _ := w.connect("i")
		g.lease()
		if disk.durable.Load() == before {
			t.Error("a filter has a lease, and the loss of power may forget it")
		}
		if n := w.rows(); n != 1 {
			t.Errorf("a filter has a lease, and the next process knows %d filters", n)
		}
	})
}

// TestSettleHearsOfANewFilter: Redis is away, and a revocation that was confirmed without
// it is asked for again while a filter joins. The answer comes once that filter believes no
// Redis either.
func TestSettleHearsOfANewFilter(t *testing.T) {
	var planned chan struct{}
	virtually(t, func(o *Options) {
		planned = make(chan struct{})
		o.Planned = func(ctx context.Context, _ Node) {
			select {
			case <-planned:
			case <-ctx.Done():
			}
		}
	}, func(t *testing.T, w *world, redis *scripted) {
		w.settles(t)
		token := w.mint("a", false)
		redis.be(gone)
		if err := w.delete(token); err != nil { // no filter is known
			t.Fatal(err)
		}
		f := w.dial("node")
		joined := async(func() error { f.hello(contract.Hello{Instance: "new"}); return nil })
		stillWaits(t, "joining", joined)
		if n := w.r.Stats().KnownFilters; n != 1 {
			t.Fatalf("%d filters are known", n)
		}
		settled := async(func() error { return w.r.Settle(t.Context()) })
		stillWaits(t, "settling", settled)
		if n := w.r.Stats().Pending; n != 1 {
			t.Errorf("%d are waited for", n)
		}
		close(planned)
		<-joined
		if d, err := took(t, settled); err != nil || d != 0 {
			t.Errorf("%v after %v", err, d)
		}
		if n := w.r.Stats().Pending; n != 0 {
			t.Errorf("%d are waited for when it has heard", n)
		}
	})
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
