package revoke

import (
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Waits says for whom a revocation would wait in vain. The zero value is nobody.
type Waits struct {
	// Strangers says that it would wait for Redis to be put in order, because filters that
	// nobody remembers may read it.
	Strangers bool
	// Former says that filters may believe a Redis that is not the one that is written to,
	// otherwise they may read this one, which cannot be written. None says that this process
	// has no Redis.
	Former, None bool
	// Filters counts the filters that are waited for, of Known.
	Filters, Known int
	// Away and Linked name their nodes: those of which such a filter is not linked, and
	// those of which one is linked and does not confirm; empty if there are none.
	Away, Linked string
}

// Any reports whether anybody is waited for.
func (w *Waits) Any() bool { return w.Strangers || w.Filters > 0 }

// waits tells whom revocations wait for, so that somebody hears of it before a revocation
// is answered Unavailable.
type waits struct {
	changed chan struct{} // wakes the owner
	// blocked says that somebody was waited for when it was looked at last. It is guarded
	// by the Revoker's mu.
	blocked bool
	// telling is held while it is looked and told, so that nothing old is told last. It
	// guards since, when the wait began, and told, what was told last.
	telling sync.Mutex
	since   time.Time
	told    Waits
}

// waitsTold is how long a wait lasts before it is told. A filter that is there confirms
// within a lease. The leases of a predecessor are waited for after each start, and only then
// it is known whether Redis can be put in order, hence the margin.
const waitsTold = contract.Lease + time.Second

// look has it looked at whom revocations wait for.
func (w *waits) look() {
	select {
	case w.changed <- struct{}{}:
	default: // it will be
	}
}

// tellWaits owns the telling until the Revoker is closed.
func (r *Revoker) tellWaits() {
	for {
		var due <-chan time.Time
		if left := r.TellWaits(); left > 0 {
			due = time.After(left)
		}
		select {
		case <-r.waits.changed:
		case <-due:
		case <-r.ctx.Done():
			return
		}
	}
}

// TellWaits tells Options.Waits whom revocations wait for, if they do, and that it is over.
// What is shorter than waitsTold is not told; the result is how long it is until then.
func (r *Revoker) TellWaits() (left time.Duration) {
	r.waits.telling.Lock()
	defer r.waits.telling.Unlock()
	if r.o.Waits == nil || r.ctx.Err() != nil {
		return 0
	}
	w := r.waitsNow()
	if !w.Any() {
		w, r.waits.since = Waits{}, time.Time{}
	} else if r.waits.since.IsZero() {
		r.waits.since = time.Now()
	}
	if left = time.Until(r.waits.since.Add(waitsTold)); left > 0 {
		return left
	}
	if w != r.waits.told {
		r.waits.told = w
		r.o.Waits(w)
	}
	return 0
}

// waitsNow judges every known filter as a revocation of now would.
func (r *Revoker) waitsNow() (w Waits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Strangers, w.None, w.Known = r.awaitsOrder(), r.keeper == nil, len(r.known)
	unwritten := !w.None && !r.keeper.isReady()
	var away, linked []string
	for name, k := range r.known {
		former := k.covered < r.serversAt
		// Who is linked would be told to do without Redis, and has been where trust is gone.
		would := unwritten && k.covered != everything && (k.links == 0 || r.trust.Epoch == 0)
		switch {
		case !former && !would:
			continue
		case k.links == 0:
			away = append(away, nodeOf(name))
		default:
			linked = append(linked, nodeOf(name))
		}
		w.Former = w.Former || former
	}
	w.Filters, w.Away, w.Linked = len(away)+len(linked), named(away), named(linked)
	r.waits.blocked = w.Any()
	return w
}
