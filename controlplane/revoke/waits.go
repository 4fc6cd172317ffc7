package revoke

import (
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Waits describes the filters that a revocation would wait for in vain. The zero value
// means none.
type Waits struct {
	// Strangers says that a revocation would wait for Redis to be put in order, because
	// filters that are not remembered may read it.
	Strangers bool
	// Former says that some of the filters may believe a Redis other than the one that is
	// written to. Otherwise the filters may read this Redis, which cannot be written. None
	// says that this process has no Redis.
	Former, None bool
	// Filters is the number of filters that are waited for, out of Known.
	Filters, Known int
	// Away and Linked name the nodes of these filters. Away lists nodes of filters that are
	// not linked. Linked lists nodes of filters that are linked and do not confirm. They
	// are empty if there are none.
	Away, Linked string
}

// Any reports whether a revocation would wait.
func (w *Waits) Any() bool { return w.Strangers || w.Filters > 0 }

// waits reports which filters revocations wait for, so that operators learn of it before a
// revocation is answered Unavailable.
type waits struct {
	changed chan struct{} // wakes tellWaits
	// blocked says that a revocation would have waited at the last check. The Revoker's mu
	// guards it.
	blocked bool
	// telling is held during a check and its report, so that reports are made in order. It
	// guards since, when the wait began, and told, the last report.
	telling sync.Mutex
	since   time.Time
	told    Waits
}

// waitsTold is how long a wait must last before it is reported. A connected filter confirms
// within a lease. After each start the leases of a predecessor have to end, and only then
// it is known whether Redis can be put in order; hence the margin.
const waitsTold = contract.Lease + time.Second

// look triggers a check of what revocations wait for.
func (w *waits) look() {
	select {
	case w.changed <- struct{}{}:
	default: // a check is due already
	}
}

// tellWaits makes the checks until the Revoker is closed.
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

// TellWaits reports to Options.Waits which filters revocations wait for, and when such a
// wait is over. Waits shorter than waitsTold are not reported; left is the time until then.
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

// waitsNow judges every known filter as a revocation of this moment would.
func (r *Revoker) waitsNow() (w Waits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Strangers, w.None, w.Known = r.awaitsOrder(), r.keeper == nil, len(r.known)
	unwritten := !w.None && !r.keeper.isReady()
	var away, linked []string
	for name, k := range r.known {
		former := k.covered < r.serversAt
		// A linked filter would be told to do without Redis. If trust is withdrawn, it was
		// told already.
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
