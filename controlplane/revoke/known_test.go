package revoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/places"
)

// rows counts the filters that are remembered over a restart.
func (w *world) rows() (n int) {
	w.t.Helper()
	if err := w.store.View(context.Background(), func(r store.Reader) error {
		list, err := r.List(filters, store.Query{})
		n = len(list)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// quotas sets the limits of links.
func (w *world) quotas(all, node int) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.o.MaxNodeLinks, w.r.places = node, places.New(places.Limits{All: all})
}

// pass links a filter of a node and breaks the link without a goodbye.
func (w *world) pass(node, instance string) {
	w.t.Helper()
	f, _ := w.connectAccepting(contract.Hello{Instance: instance}, ofNode(node))
	f.cut()
}

// refused demands that a filter is not welcomed.
func (w *world) refused(instance string) {
	w.t.Helper()
	if !w.full(instance, "") {
		w.t.Errorf("filter %s is welcomed", instance)
	}
}

// A link beyond the limits leaves nothing behind.
func TestQuotasComeBeforeMemory(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		w.quotas(64, 2)
		w.connect("a")
		w.connect("b")
		for i := range 5 {
			w.refused(fmt.Sprint("stranger-", i))
		}
		if known, rows := w.r.Stats().KnownFilters, w.rows(); known != 2 || rows != 2 {
			t.Errorf("%d filters known, %d in the store", known, rows)
		}
	})
}

// A node that connects again and again with new instances is remembered within bounds, and
// so are many such nodes. That they may be alive is not forgotten too early.
func TestKnownFiltersAreBounded(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 60} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { knownFiltersAreBounded(t, nodes) })
		})
	}
}

func knownFiltersAreBounded(t *testing.T, nodes int) {
	redis, offset := newScripted("run-1"), new(atomic.Int64)
	w := &world{t: t, virtual: true, remote: redis, now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }}
	w.init(nil)
	w.settles(t)
	w.quotas(8, 4)
	first, second := w.mint("a", false), w.mint("b", false)
	for i := range 60 {
		w.pass(fmt.Sprint("n", i%nodes), fmt.Sprint("i", i))
	}
	bound := 2*8 + 1
	if nodes == 1 {
		bound = 4 + 1
	}
	if known := w.r.Stats().KnownFilters; known == 0 || known > bound {
		t.Errorf("%d filters known, want at most %d", known, bound)
	}
	if rows := w.rows(); rows == 0 || rows > bound {
		t.Errorf("%d rows, want at most %d", rows, bound)
	}
	redis.be(gone)
	unavailable(t, w.delete(first))
	offset.Store(int64(contract.RememberFilter + time.Hour))
	if err := w.delete(second); err != nil {
		t.Errorf("when nobody can be alive any more: %v", err)
	}
}

// Rows that another process wrote are not read, let alone removed.
func TestOnlyOwnRowsAreForgotten(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		if _, err := w.store.Update(context.Background(), model.Credential, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: filters, Name: "another", Spec: &Filter{Seen: time.Now().UnixMilli()}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		f, _ := w.connect("i")
		if n := w.rows(); n != 2 {
			t.Fatalf("%d rows, want 2", n)
		}
		f.send(contract.FrameBye, nil)
		synctest.Wait()
		if n := w.r.Stats().KnownFilters; n != 0 {
			t.Fatalf("%d are known after the goodbye", n)
		}
		g, _ := w.connect("j") // was written after the goodbye
		g.lease()
		synctest.Wait()
		if n := w.rows(); n != 2 {
			t.Errorf("%d rows of those that are here, want 2", n)
		}
		if err := w.store.View(context.Background(), func(r store.Reader) error {
			_, err := r.Get(filters, "", "another")
			return err
		}); err != nil {
			t.Error(err)
		}
	})
}

// A filter cannot say goodbye for a filter of another node.
func TestGoodbyeIsOnesOwn(t *testing.T) {
	t.Parallel()
	alone(t, func(t *testing.T, w *world) {
		w.connectAccepting(contract.Hello{Instance: "i"}, contract.NodeHeader+": a\r\n")
		f, _ := w.connectAccepting(contract.Hello{Instance: "i"}, contract.NodeHeader+": b\r\n")
		f.send(contract.FrameBye, nil)
		synctest.Wait()
		if s := w.r.Stats(); s.Links != 1 || s.KnownFilters != 1 {
			t.Errorf("%d links of %d filters that are known, want 1 of 1", s.Links, s.KnownFilters)
		}
	})
}

// classStore records the class of each write.
type classStore struct {
	store.Store
	mu      sync.Mutex
	classes []model.Class
}

// Update implements [store.Store].
func (s *classStore) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	s.mu.Lock()
	s.classes = append(s.classes, class)
	s.mu.Unlock()
	return s.Store.Update(ctx, class, fn)
}

func (s *classStore) taken() []model.Class {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.classes
	s.classes = nil
	return taken
}

// A filter is still known after a loss of power, from before its welcome on. The time when
// it was last seen is not worth waiting for the disk.
func TestNewFiltersOutliveALossOfPower(t *testing.T) {
	noted := &classStore{}
	virtually(t, func(o *Options) {
		noted.Store = o.Store
		o.Store = noted
	}, func(t *testing.T, w *world, _ *scripted) {
		first, _ := w.pipe("node", contract.Hello{Instance: "first of its scope, which is noted, too"})
		first.cut()
		noted.taken()
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		if got := noted.taken(); !slices.Equal(got, []model.Class{model.Config}) {
			t.Errorf("a new filter is written with %v", got)
		}
		f.cut()
		noted.taken()
		time.Sleep(2 * rememberEvery)
		again, _ := w.pipe("node", contract.Hello{Instance: "i"})
		again.cut()
		if got := noted.taken(); len(got) == 0 || slices.Contains(got, model.Config) {
			t.Errorf("a filter that is known is written with %v", got)
		}
	})
}

// TestSeenIsStoredBeforeTheTime: a process ends in good order after its store took no
// writes for hours. It stores when its filters were last seen before it stores the time.
// Otherwise the filters would be forgotten early, while they still believe Redis.
func TestSeenIsStoredBeforeTheTime(t *testing.T) {
	for name, refuses := range map[string]bool{"it takes writes again": false, "it does not": true} {
		t.Run(name, func(t *testing.T) {
			full := &fullStore{}
			virtually(t, func(o *Options) {
				full.Store = o.Store
				o.Store = full
			}, func(t *testing.T, w *world, _ *scripted) {
				f, _ := w.pipe("node", contract.Hello{Instance: "i"})
				go func() { _, _ = io.Copy(io.Discard, f.in) }() // until the link ends
				full.refuse(true)
				for range 2 * int(rememberEvery/time.Second) {
					f.send(contract.FrameRenew, contract.EncodeNumber(1))
					time.Sleep(time.Second)
				}
				seen := time.Now().UnixMilli()
				full.refuse(refuses)
				if err := w.r.Close(t.Context()); (err != nil) != refuses {
					t.Errorf("the end: %v", err)
				}
				full.refuse(false)
				row, at := w.stored()
				if !refuses && row < seen || row < at {
					t.Errorf("the filter is noted as seen %v before the time that is noted, %v before its end", time.Duration(at-row)*time.Millisecond, time.Duration(seen-row)*time.Millisecond)
				}
			})
		})
	}
}

// stored returns when the only filter was last seen, and the stored time, in milliseconds.
func (w *world) stored() (seen, at int64) {
	w.t.Helper()
	if err := w.store.View(context.Background(), func(r store.Reader) error {
		list, err := r.List(filters, store.Query{})
		if err != nil || len(list) != 1 {
			return fmt.Errorf("%d filters, %w", len(list), err)
		}
		seen = list[0].Spec.(*Filter).Seen
		row, err := r.Get(times, "", singleton)
		if err == nil {
			at = row.Spec.(*Times).Earliest
		}
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return seen, at
}

// fullStore is a store whose disk is full for a while.
type fullStore struct {
	store.Store
	full atomic.Bool
}

func (s *fullStore) refuse(yes bool) { s.full.Store(yes) }

// Update implements [store.Store].
func (s *fullStore) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if s.full.Load() {
		return store.Commit{}, errors.New("the disk is full")
	}
	return s.Store.Update(ctx, class, fn)
}
