package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// damage lets the rows of leases be unreadable that a process reads, until somebody removes them.
type damage struct{ is atomic.Bool }

func (d *damage) wrap(fn func(store.Tx) error) func(store.Tx) error {
	return func(tx store.Tx) error { return fn(&damagedTx{tx, d}) }
}

type damagedTx struct {
	store.Tx
	*damage
}

func (t *damagedTx) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	res, err := t.Tx.Get(k, scope, name)
	if err == nil && t.is.Load() {
		spoilt := *res
		return nil, store.Unreadable(&spoilt, 0, errors.New("no JSON"))
	}
	return res, err
}

func (t *damagedTx) Update(r *model.Resource, version uint64) (*model.Resource, error) {
	if t.is.Load() {
		return nil, store.ErrUnreadable
	}
	return t.Tx.Update(r, version)
}

func (t *damagedTx) Delete(k *model.Kind, scope, name string, version uint64) error {
	err := t.Tx.Delete(k, scope, name, version)
	if err == nil {
		t.is.Store(false)
	}
	return err
}

// TestDamagedRow: who wants a lease whose row cannot be read waits for a whole span, because there may be a
// holder, and then makes the row anew. The former holder stops before and may not write any more, whatever
// its epoch was.
func TestDamagedRow(t *testing.T) {
	processes(t, func(t *testing.T, a, b *disk, first, second *Holder) {
		broken := &damage{}
		a.wrong, b.wrong = broken, broken
		l := take(t, first)
		broken.is.Store(true)
		began := time.Now()
		stopped := make(chan time.Duration, 1)
		context.AfterFunc(l.Context(), func() { stopped <- time.Since(began) })
		other := take(t, second)
		if waited := time.Since(began); waited < span || waited > span+span/looks {
			t.Errorf("it took %v", waited)
		}
		if after := <-stopped; after > span/renewals {
			t.Errorf("the former holder stopped after %v", after)
		}
		if err := fenced(b, other); err != nil || !errors.Is(fenced(a, l), ErrLost) {
			t.Errorf("the new holder: %v, the former one: %v", err, fenced(a, l))
		}
		l.Release(t.Context()) // it gives nothing away that is another's
		time.Sleep(time.Hour)
		if err := fenced(b, other); err != nil || other.Context().Err() != nil {
			t.Errorf("the new holder, after an hour: %v, %v", err, other.Context().Err())
		}
		other.Release(t.Context())
	})
}

// TestDamagedRowOfOneProcess: a process that is alone takes a lease whose row cannot be read at once, and what is
// under way from before does not count, though holder and number of takings may be the same.
func TestDamagedRowOfOneProcess(t *testing.T) {
	for takings := range 3 {
		t.Run(fmt.Sprintf("%d takings before", takings), func(t *testing.T) {
			processes(t, func(t *testing.T, a, _ *disk, _, _ *Holder) {
				a.wrong = &damage{}
				h := New(Options{Writer: a, Holder: "a", Span: span, Sole: true})
				for range takings {
					take(t, h).Release(t.Context())
				}
				l := take(t, h)
				a.wrong.is.Store(true)
				began := time.Now()
				again := take(t, h)
				if time.Since(began) > 0 {
					t.Errorf("it took %v", time.Since(began))
				}
				if err := fenced(a, again); err != nil || !errors.Is(fenced(a, l), ErrLost) {
					t.Errorf("the new lease: %v, the one before: %v", err, fenced(a, l))
				}
				l.Release(t.Context())
				again.Release(t.Context())
			})
		})
	}
}

// TestDamagedRowIsLost: a holder whose row cannot be read has lost its lease, at the first write that checks it,
// and the error says nothing of a row: whoever writes would take it for one of their own.
func TestDamagedRowIsLost(t *testing.T) {
	processes(t, func(t *testing.T, a, _ *disk, first, _ *Holder) {
		a.wrong = &damage{}
		l := take(t, first)
		a.wrong.is.Store(true)
		_, err := a.Update(t.Context(), model.Credential, a.wrong.wrap(func(tx store.Tx) error { return l.Check(tx) }))
		if !errors.Is(err, ErrLost) || errors.Is(err, store.ErrUnreadable) || l.Context().Err() == nil {
			t.Errorf("%v, and the lease: %v", err, l.Context().Err())
		}
		l.Release(t.Context())
	})
}
