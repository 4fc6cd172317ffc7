package recall_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/recall"
)

// hung is a store whose feed tells nothing while it hangs.
type hung struct {
	store.Store
	hangs atomic.Bool
}

// Watch implements [store.Store].
func (h *hung) Watch(ctx context.Context, after uint64) iter.Seq2[[]store.Event, error] {
	if !h.hangs.Load() {
		return h.Store.Watch(ctx, after)
	}
	return func(yield func([]store.Event, error) bool) {
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

// TestCallersGiveUp: a caller whose time is over waits neither for the feed nor for another
// caller that waits for it. What is in memory stays.
func TestCallersGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hung{Store: memstore.New()}
		defer h.Close()
		s := &counted{Store: h}
		write(t, s, create(box, "0", item{}))
		cache := recall.New(s, box)
		read := func(ctx context.Context) error {
			return cache.View(ctx, func(r store.Reader) error {
				_, err := r.Get(box, "s", "0")
				return err
			})
		}
		for range 2 {
			if err := read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h.hangs.Store(true)
		write(t, s, create(other, "0", item{})) // the feed has to be followed
		answers, patient := make(chan error, 3), make(chan error, 1)
		hasty, giveUp := context.WithCancel(t.Context())
		longer, giveUpToo := context.WithCancel(t.Context())
		go func() { patient <- read(longer) }()
		synctest.Wait()
		for range cap(answers) {
			go func() { answers <- read(hasty) }()
		}
		synctest.Wait()
		giveUp()
		for range cap(answers) {
			if err := <-answers; !errors.Is(err, context.Canceled) {
				t.Errorf("who gave up is told %v", err)
			}
		}
		giveUpToo()
		if err := <-patient; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up while following is told %v", err)
		}
		h.hangs.Store(false)
		before := s.views.Load()
		if err := read(t.Context()); err != nil {
			t.Error(err)
		}
		if n := s.views.Load() - before; n != 0 {
			t.Error("what was in memory is forgotten")
		}
	})
}
