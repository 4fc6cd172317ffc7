package lease

import (
	"context"
	"errors"
	"fmt"
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
	// slow is how long it takes until who writes hears that it is written. Others see it before.
	slow time.Duration
	// wrong, if set, damages what is read in transactions.
	wrong *damage
}

func (d *disk) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if d.fails.Load() {
		return store.Commit{}, errors.New("the disk is full")
	}
	if d.wrong != nil {
		fn = d.wrong.wrap(fn)
	}
	commit, err := d.Update(ctx, class, fn)
	time.Sleep(d.slow)
	return commit, err
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

// TestHolderThatCannotRenew: a holder that cannot reach the store stops before anybody else begins, earlier by
// a fifth of the span, and nothing that it writes afterwards counts. The time that a write takes is the
// holder's loss, whether that write took the lease or renewed it.
func TestHolderThatCannotRenew(t *testing.T) {
	for name, renewed := range map[string]time.Duration{"never renewed": 0, "renewed": time.Minute} {
		for _, slow := range []time.Duration{0, span / 5} {
			t.Run(fmt.Sprintf("%s, writes of %s", name, slow), func(t *testing.T) {
				processes(t, func(t *testing.T, a, b *disk, first, second *Holder) {
					a.slow = slow
					next := make(chan *Lease)
					go func() {
						time.Sleep(time.Nanosecond) // the first has written, and may not know it yet
						l, _ := second.Take(t.Context(), "x")
						next <- l
					}()
					l := take(t, first)
					time.Sleep(renewed)
					a.fails.Store(true)
					succeed(t, a, b, l, next)
				})
			})
		}
	}
}

// succeed demands that the second process gets the lease of the first one, which cannot renew it, after that
// has stopped.
func succeed(t *testing.T, a, b *disk, l *Lease, next <-chan *Lease) {
	t.Helper()
	stopped := make(chan time.Time, 1)
	context.AfterFunc(l.Context(), func() { stopped <- time.Now() })
	other := <-next
	if other == nil {
		t.Fatal("the second did not get it")
	}
	began := time.Now()
	select {
	case at := <-stopped:
		if gap := began.Sub(at); gap < span/5 {
			t.Errorf("the second began %s after the first had stopped", gap)
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

// TestOwnLapsedLease: a holder that could not renew takes its own lease again as soon as it can. Nothing that
// is still under way from the time before counts any more.
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
		if err := fenced(a, again); err != nil || !errors.Is(fenced(a, l), ErrLost) {
			t.Errorf("the new lease: %v, the lapsed one: %v", err, fenced(a, l))
		}
		l.Release(t.Context()) // it is not the lease that the holder has now
		if err := fenced(a, again); err != nil {
			t.Errorf("the lapsed one was given back: %v", err)
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
