package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// disk is a store as a [Writer] that fails while it is told to.
type disk struct {
	store.Store
	fails atomic.Bool
}

func (d *disk) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if d.fails.Load() {
		return store.Commit{}, errors.New("the disk is full")
	}
	return d.Update(ctx, class, fn)
}

const span = 10 * time.Second

// processes runs a test in virtual time with two processes on one store, each with its own way to it.
func processes(t *testing.T, test func(t *testing.T, a, b *disk, first, second *Holder)) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer func() { _ = s.Close() }()
		a, b := &disk{Store: s}, &disk{Store: s}
		test(t, a, b, New(Options{Writer: a, Holder: "a", Span: span}), New(Options{Writer: b, Holder: "b", Span: span}))
	})
}

func take(t *testing.T, h *Holder) *Lease {
	t.Helper()
	l, err := h.Take(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fenced is the error of a write of a holder.
func fenced(d *disk, l *Lease) error {
	_, err := d.Update(context.Background(), model.Credential, func(tx store.Tx) error { return l.Check(tx) })
	return err
}

// TestHeldWhileRenewed: a lease that is renewed stays its holder's for as long as that wants, and one that
// was given back is another's at once.
func TestHeldWhileRenewed(t *testing.T) {
	processes(t, func(t *testing.T, a, b *disk, first, second *Holder) {
		l := take(t, first)
		got := make(chan *Lease)
		go func() {
			l, _ := second.Take(t.Context(), "x")
			got <- l
		}()
		time.Sleep(time.Hour)
		select {
		case <-got:
			t.Fatal("two have the lease")
		default:
		}
		if l.Context().Err() != nil || fenced(a, l) != nil {
			t.Error("the lease is lost")
		}
		l.Release(t.Context())
		began := time.Now()
		other := <-got
		if time.Since(began) > span/looks {
			t.Errorf("it took %v to get what was given back", time.Since(began))
		}
		if err := fenced(b, other); err != nil || !errors.Is(fenced(a, l), ErrLost) {
			t.Errorf("the new holder: %v, the former one: %v", err, fenced(a, l))
		}
		other.Release(t.Context())
	})
}

// TestHolderThatCannotRenew: a holder that cannot reach the store stops before anybody else begins, and
// nothing that it writes afterwards counts.
func TestHolderThatCannotRenew(t *testing.T) {
	processes(t, func(t *testing.T, a, b *disk, first, second *Holder) {
		l := take(t, first)
		time.Sleep(time.Minute)
		a.fails.Store(true)
		stopped := make(chan time.Time, 1)
		context.AfterFunc(l.Context(), func() { stopped <- time.Now() })
		other := take(t, second)
		began := time.Now()
		select {
		case at := <-stopped:
			if !at.Before(began) {
				t.Error("both worked at the same time")
			}
		default:
			t.Fatal("both have the lease")
		}
		if !errors.Is(context.Cause(l.Context()), ErrLost) {
			t.Errorf("%v", context.Cause(l.Context()))
		}
		a.fails.Store(false)
		if err := fenced(a, l); !errors.Is(err, ErrLost) {
			t.Errorf("the former holder may still write: %v", err)
		}
		l.Release(t.Context()) // it gives nothing away that is another's
		if err := fenced(b, other); err != nil {
			t.Error(err)
		}
		other.Release(t.Context())
	})
}

// TestTakersWaitTheWholeSpan: who comes late waits for the whole span from when it has seen the row, and no
// longer.
func TestTakersWaitTheWholeSpan(t *testing.T) {
	processes(t, func(t *testing.T, _, _ *disk, first, second *Holder) {
		dies, kill := context.WithCancel(t.Context())
		if _, err := first.Take(dies, "x"); err != nil {
			t.Fatal(err)
		}
		kill() // nothing is given back
		time.Sleep(time.Hour)
		began := time.Now()
		l := take(t, second)
		if waited := time.Since(began); waited < span || waited > span+span/looks {
			t.Errorf("it took %v", waited)
		}
		l.Release(t.Context())
	})
}

// TestSole: who is alone on a store waits for nobody.
func TestSole(t *testing.T) {
	processes(t, func(t *testing.T, a, b *disk, first, _ *Holder) {
		dies, kill := context.WithCancel(t.Context())
		old, err := first.Take(dies, "x")
		if err != nil {
			t.Fatal(err)
		}
		kill()
		began := time.Now()
		l := take(t, New(Options{Writer: b, Holder: "b", Span: span, Sole: true}))
		if time.Since(began) > 0 || !errors.Is(fenced(a, old), ErrLost) {
			t.Errorf("after %v: %v", time.Since(began), fenced(a, old))
		}
		l.Release(t.Context())
	})
}

// TestOwnLapsedLease: a holder that could not renew takes its own lease again as soon as it can.
func TestOwnLapsedLease(t *testing.T) {
	processes(t, func(t *testing.T, a, _ *disk, first, _ *Holder) {
		l := take(t, first)
		a.fails.Store(true)
		time.Sleep(time.Minute)
		if l.Context().Err() == nil {
			t.Error("it is held without having been renewed")
		}
		if _, err := first.Take(t.Context(), "x"); err == nil {
			t.Error("it was taken without a write")
		}
		a.fails.Store(false)
		began := time.Now()
		again := take(t, first)
		if time.Since(began) > 0 {
			t.Errorf("it took %v", time.Since(began))
		}
		again.Release(t.Context())
	})
}

// TestLasting: what is under way when the process is to end has the rest of the lease, which nobody renews and
// nobody else gets meanwhile.
func TestLasting(t *testing.T) {
	processes(t, func(t *testing.T, a, _ *disk, first, second *Holder) {
		ends, end := context.WithCancel(t.Context())
		l, err := first.Take(ends, "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		end()
		began, got := time.Now(), make(chan *Lease)
		go func() {
			l, _ := second.Take(t.Context(), "x")
			got <- l
		}()
		if l.Context().Err() == nil || l.Lasting().Err() != nil || fenced(a, l) != nil {
			t.Errorf("%v, %v, %v", l.Context().Err(), l.Lasting().Err(), fenced(a, l))
		}
		<-l.Lasting().Done()
		if lasted := time.Since(began); lasted < span*2/5 || lasted > span {
			t.Errorf("it lasted for %v", lasted)
		}
		if fenced(a, l) != nil {
			t.Error("another has it already")
		}
		other := <-got
		if !errors.Is(fenced(a, l), ErrLost) {
			t.Error("two have it")
		}
		other.Release(t.Context())
		l.Release(t.Context())
	})
}
