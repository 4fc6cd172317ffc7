package meshca

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
)

// Renewals are due at a random moment of this part of a certificate's life, so
// that certificates issued together are not renewed together.
const (
	renewalFrom = 0.70
	renewalSpan = 0.10
	// renewalPause is the least time from a Note to its renewal: near the end of
	// its authority each certificate is shorter than the one before, without end.
	renewalPause = 100 * time.Millisecond
)

// Renewals knows when the certificates of proxies are to be replaced. Nothing of
// it is stored: what proxies hold is noted again when they connect.
type Renewals struct {
	due  func(mesh, dataplane string)
	wake chan struct{}
	now  func() time.Time

	mu    sync.Mutex
	queue renewalQueue
	by    map[proxyKey]*renewal
}

type proxyKey struct{ mesh, dataplane string }

type renewal struct {
	proxyKey
	at time.Time
	// index is its place in the queue.
	index int
}

// NewRenewals returns renewals without entries. due is called by Run, one call at
// a time, must not block, and may call Note and Forget. Nothing is due twice: if
// the replacement fails, due's owner tries again or calls Note.
func NewRenewals(due func(mesh, dataplane string)) *Renewals {
	return &Renewals{due: due, wake: make(chan struct{}, 1), now: time.Now, by: map[proxyKey]*renewal{}}
}

// Note says that a proxy got a certificate. It replaces what was noted before.
func (r *Renewals) Note(meshName, dataplane string, issued, notAfter time.Time) {
	part := renewalFrom + renewalSpan*rand.Float64() //nolint:gosec // spreads load, no secret
	// Without its reading of the monotonic clock, which stands still while the host
	// sleeps, a moment is compared by the wall clock.
	at := issued.Add(time.Duration(part * float64(notAfter.Sub(issued)))).Round(0)
	if first := r.now().Add(renewalPause).Round(0); at.Before(first) {
		at = first
	}
	key := proxyKey{meshName, dataplane}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.by[key]; e != nil {
		e.at = at
		heap.Fix(&r.queue, e.index)
	} else {
		e = &renewal{proxyKey: key, at: at}
		r.by[key] = e
		heap.Push(&r.queue, e)
	}
	if r.queue[0].proxyKey == key {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Noted reports whether the certificate of a proxy is to be renewed.
func (r *Renewals) Noted(meshName, dataplane string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[proxyKey{meshName, dataplane}] != nil
}

// Forget says that a proxy is gone. A renewal of it that is under way may still
// be called.
func (r *Renewals) Forget(meshName, dataplane string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.by[proxyKey{meshName, dataplane}]; e != nil {
		heap.Remove(&r.queue, e.index)
		delete(r.by, e.proxyKey)
	}
}

// Run calls what is due until ctx ends, whose error it returns.
func (r *Renewals) Run(ctx context.Context) error {
	first := alarm.New(r.now)
	defer first.Set(time.Time{})
	for {
		for ctx.Err() == nil {
			key, at, ok := r.next()
			if !ok {
				first.Set(at)
				break
			}
			r.due(key.mesh, key.dataplane)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		case <-first.C():
		}
	}
}

// next takes what is due from the queue. Otherwise it returns when the first will
// be, zero if there is nothing to wait for.
func (r *Renewals) next() (key proxyKey, at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return key, at, false
	}
	if at = r.queue[0].at; at.After(r.now()) {
		return key, at, false
	}
	e := heap.Pop(&r.queue).(*renewal)
	delete(r.by, e.proxyKey)
	return e.proxyKey, at, true
}

// renewalQueue implements [heap.Interface]: the earliest first.
type renewalQueue []*renewal

func (q renewalQueue) Len() int           { return len(q) }
func (q renewalQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q renewalQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *renewalQueue) Push(x any) {
	e := x.(*renewal)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements [heap.Interface].
func (q *renewalQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
