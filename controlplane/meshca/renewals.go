package meshca

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Renewals are due at a random time within this part of a certificate's life, so that
// certificates issued together are not renewed together.
const (
	renewalFrom = 0.70
	renewalSpan = 0.10
	// renewalPause is the shortest time from a Note to its renewal. Near the end of its
	// authority each certificate is shorter than the one before, and without a pause there
	// would be no end to renewals.
	renewalPause = 100 * time.Millisecond
)

// Renewals knows when the certificates of proxies must be replaced. Nothing is stored: the
// certificates of proxies are noted again when they connect.
type Renewals struct {
	due  func(mesh, dataplane string)
	wake chan struct{}
	now  func() time.Time

	mu    sync.Mutex
	queue renewalQueue
	by    map[proxyKey]*renewal
	// newest is when the last certificate of the queue was issued, or later.
	newest time.Time
	// turns are the due renewals by mesh, first come first served. A mesh that has an entry
	// is served by one goroutine.
	turns map[string][]*renewal
}

type proxyKey struct{ mesh, dataplane string }

type renewal struct {
	proxyKey
	at, issued time.Time
	// index is the place in the queue, or -1 once it waits for its turn.
	index int
}

// NewRenewals returns renewals without entries. due is called while Run runs, with one call
// at a time for each mesh. A call that waits delays only its own mesh. due may call Note and
// Forget. Nothing is due twice: if the replacement fails, the owner of due tries again or
// calls Note.
func NewRenewals(due func(mesh, dataplane string)) *Renewals {
	return &Renewals{due: due, wake: make(chan struct{}, 1), now: time.Now, by: map[proxyKey]*renewal{}, turns: map[string][]*renewal{}}
}

// Note records that a proxy got a certificate. It replaces an earlier Note.
func (r *Renewals) Note(meshName, dataplane string, issued, notAfter time.Time) {
	part := renewalFrom + renewalSpan*rand.Float64() //nolint:gosec // spreads load, no secret
	// Round removes the reading of the monotonic clock, so that times are compared by the
	// wall clock. The monotonic clock stands still while the host sleeps.
	at := issued.Add(time.Duration(part * float64(notAfter.Sub(issued)))).Round(0)
	if first := r.now().Add(renewalPause).Round(0); at.Before(first) {
		at = first
	}
	key, issued := proxyKey{meshName, dataplane}, issued.Round(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	if issued.After(r.newest) {
		r.newest = issued
	}
	if e := r.by[key]; e != nil && e.index >= 0 {
		e.at, e.issued = at, issued
		heap.Fix(&r.queue, e.index)
	} else {
		e = &renewal{proxyKey: key, at: at, issued: issued} // replaces one that waits for its turn
		r.by[key] = e
		heap.Push(&r.queue, e)
	}
	if r.queue[0] == r.by[key] {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Noted reports whether the certificate of a proxy will be renewed.
func (r *Renewals) Noted(meshName, dataplane string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[proxyKey{meshName, dataplane}] != nil
}

// Forget records that a proxy is gone. A renewal in progress may still be called.
func (r *Renewals) Forget(meshName, dataplane string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.by[proxyKey{meshName, dataplane}]; e != nil {
		if e.index >= 0 {
			heap.Remove(&r.queue, e.index)
		}
		delete(r.by, e.proxyKey)
	}
}

// Run calls due for due renewals until ctx ends. After the last call has ended, it returns
// the error of ctx.
func (r *Renewals) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	first := alarm.New(r.now)
	defer first.Set(time.Time{})
	for {
		for ctx.Err() == nil {
			e, at := r.next()
			if e == nil {
				first.Set(at)
				break
			}
			if r.queued(e) {
				all.Go(func() { r.serve(ctx, e.mesh) })
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		case <-first.C():
		}
	}
}

// next takes a due renewal from the queue, which then waits for its turn. If none is due, it
// returns nil and when the first one will be due, or zero if the queue is empty.
func (r *Renewals) next() (e *renewal, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil, at
	}
	r.hasten()
	if at = r.queue[0].at; at.After(r.now()) {
		return nil, at
	}
	e = heap.Pop(&r.queue).(*renewal)
	e.index = -1
	return e, at
}

// hasten makes the renewals due of certificates that were issued while the clock was ahead
// of what it is now: they are not valid yet. The caller holds mu.
func (r *Renewals) hasten() {
	now := r.now().Round(0)
	valid := now.Add(identity.Backdate)
	if !r.newest.After(valid) {
		return
	}
	r.newest = valid
	for _, e := range r.queue {
		if e.issued.After(valid) {
			e.at, e.issued = now, now
		}
	}
	heap.Init(&r.queue)
}

// queued adds a due renewal to the turns of its mesh. It reports whether no goroutine serves
// the mesh yet.
func (r *Renewals) queued(e *renewal) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting, served := r.turns[e.mesh]
	r.turns[e.mesh] = append(waiting, e)
	return !served
}

// serve calls due for the renewals of a mesh until none is left.
func (r *Renewals) serve(ctx context.Context, meshName string) {
	for ctx.Err() == nil {
		e := r.turn(meshName)
		if e == nil {
			return
		}
		r.due(e.mesh, e.dataplane)
	}
}

// turn takes the next renewal of a mesh. It skips those that were noted anew or forgotten
// while they waited. If none is left, it returns nil, and the mesh is no longer served.
func (r *Renewals) turn(meshName string) *renewal {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.turns[meshName]) > 0 {
		e := r.turns[meshName][0]
		r.turns[meshName] = r.turns[meshName][1:]
		if r.by[e.proxyKey] == e {
			delete(r.by, e.proxyKey)
			return e
		}
	}
	delete(r.turns, meshName)
	return nil
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
