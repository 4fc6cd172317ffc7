package revoke

import (
	"context"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// publishLimit bounds how long a caller waits: the first lease after a start,
// the writes to Redis, and two rounds over the links (invalidations, epoch).
const publishLimit = 4 * contract.Lease

// Publish makes the revocations of a commit known and returns once no filter
// answers from the state before it. A fault of code Unavailable says that this
// cannot be claimed; the commit stands, and the work goes on. A commit that
// revokes nothing returns at once.
func (r *Revoker) Publish(ctx context.Context, c store.Commit) error {
	entries := r.revoked(c)
	if len(entries) == 0 {
		return nil
	}
	done := make(chan error, 1)
	if !r.redis.jobs.start(func() { done <- r.publish(entries, c.Revision) }) {
		return fault.New(fault.Unavailable, "The token was revoked, but the control plane is stopping and it may still be accepted.")
	}
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		r.mu.Lock()
		r.stats.Unconfirmed++
		r.mu.Unlock()
		return fault.Wrap(fault.Unavailable, ctx.Err(), "The token was revoked, but not all gateways have confirmed it in time and it may still be accepted.")
	}
}

// publish follows the order of the ADR, section Revoking, from step 2 on.
func (r *Revoker) publish(entries []entry, revision uint64) error {
	begun := time.Now()
	r.mu.Lock()
	r.journal.add(r.o.Now(), entries)
	r.mu.Unlock()
	failed := r.redis.revoke(entries)
	r.mu.Lock()
	w := r.broadcast(contract.FrameInvalidate, entries, 0)
	r.mu.Unlock()
	w.wait(r.ctx)
	r.firstLease()
	var err error
	if failed != nil {
		r.log.Warn("revocation was not written to redis", "revision", revision, "error", failed)
		err = r.confirmEpoch(failed)
	}
	if err == nil && r.ctx.Err() != nil {
		err = fault.New(fault.Unavailable, "The token was revoked, but the control plane is stopping and it may still be accepted.")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Revocations++
	r.stats.Lag = time.Since(begun)
	if err != nil {
		r.stats.Unconfirmed++
	}
	return err
}

// firstLease waits until no filter can hold a lease from a predecessor of this
// process.
func (r *Revoker) firstLease() {
	if r.alone {
		return
	}
	t := time.NewTimer(time.Until(r.started.Add(contract.Lease)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.ctx.Done():
	}
}

// confirmEpoch voids all records in a Redis that could not be written, and
// succeeds if every filter that may read it has acknowledged that.
func (r *Revoker) confirmEpoch(cause error) error {
	if err := r.redis.raise(r.ctx); err != nil {
		return fault.Wrap(fault.Unavailable, err, "The token was revoked, but Redis cannot be written and it may still be accepted.")
	}
	r.mu.Lock()
	w := r.broadcast(contract.FrameEpoch, nil, r.epoch)
	r.mu.Unlock()
	w.wait(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	reached := map[*known]bool{}
	for l := range r.links {
		if l.epochAcked >= r.epoch {
			reached[l.known] = true
		}
	}
	now, missing := r.o.Now(), 0
	for _, k := range r.known {
		if !reached[k] && now.Sub(k.seen) <= Remember {
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	return fault.Wrap(fault.Unavailable, cause,
		"The token was revoked, but Redis cannot be written and %d of %d gateways are out of reach: there it may still be accepted.", missing, len(r.known))
}

// waiter waits until links have acknowledged or their leases are over.
type waiter struct {
	mu      sync.Mutex
	pending int
	done    chan struct{}
	// until is when the last lease ends, lost that of links that are gone.
	until, lost time.Time
}

// settle counts one acknowledgement.
func (w *waiter) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending--; w.pending == 0 {
		close(w.done)
	}
}

// wait returns when nobody can answer from the old state.
func (w *waiter) wait(ctx context.Context) {
	t := time.NewTimer(time.Until(w.until))
	defer t.Stop()
	select {
	case <-w.done:
	case <-t.C:
	case <-ctx.Done():
	}
	t.Reset(time.Until(w.lost))
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// broadcast queues invalidations, or an epoch, on every link and returns what
// to wait for. mu is held. The lease of a link that has not acknowledged counts
// as it stands now: what is granted later follows these frames on the link.
func (r *Revoker) broadcast(t contract.FrameType, entries []entry, epoch uint64) *waiter {
	w := &waiter{pending: 1, done: make(chan struct{}), until: time.Now()}
	now := w.until
	for _, end := range r.lost {
		w.lost = later(w.lost, end) // nobody will acknowledge for it
	}
	for l := range r.links {
		live := l.lease.After(now) || t == contract.FrameEpoch
		if !live {
			r.enqueueAll(l, t, entries, epoch, nil)
			continue
		}
		w.pending++
		w.until = later(w.until, l.lease)
		if t == contract.FrameEpoch {
			// Whether or not it has a lease, it may read Redis.
			w.until = later(w.until, now.Add(contract.Lease))
		}
		r.enqueueAll(l, t, entries, epoch, w)
	}
	w.settle()
	return w
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (r *Revoker) enqueueAll(l *link, t contract.FrameType, entries []entry, epoch uint64, w *waiter) {
	if t == contract.FrameEpoch {
		l.sendEpoch(epoch, w)
		return
	}
	items := make([]contract.Invalidation, len(entries))
	for i := range entries {
		items[i] = entries[i].inv
	}
	l.sendInvalidations(items, w)
}
