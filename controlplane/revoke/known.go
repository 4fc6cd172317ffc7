package revoke

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// known is a filter process that may read Redis, or several of which only that
// is remembered. Its name, and that of its row, is
//
//	instance@node   one process
//	@node@hour      those of a node beyond the bound that were seen last in that hour, of
//	                which each may be alive
//	@@hour          those of any node, beyond the bound of all
//
// so that whoever makes instances up costs rows in bounded number, and nobody
// who may be alive is forgotten before its time. Older releases wrote one row without an
// hour, which is read as any other.
type known struct {
	// seen is when it was last linked, of several that of the latest.
	seen time.Time
	// links counts those that are open or joining. latest is that whose hello came last:
	// a filter has one link, and nothing that comes on its former ones counts.
	links  int
	latest *link
	// welcomed says that it was ever: what was not can hold nothing. scopes is whose
	// credentials it accepts, nil unless it has acknowledged that and was told of no others
	// since.
	welcomed bool
	scopes   *contract.Scopes
	// covered is the position up to which it takes no old state from Redis, because
	// of the trust that it has confirmed; see trust.go. gone says that it was
	// forgotten and counts no more.
	covered contract.Position
	gone    bool
}

// others separates the instance from the node, and begins the name of several.
const others = "@"

// rememberEvery is how often filters that stay linked are noted anew. A filter that is
// welcomed may have been noted as long ago, and stay linked as long before it is noted
// again: both together are within what [contract.RememberFilter] is longer than a filter
// believes Redis, its clock being set back included.
const rememberEvery = 30 * time.Minute

func validInstance(s string) bool {
	return s != "" && len(s) <= maxInstance && !strings.Contains(s, others)
}

// called is the name of the filter at a link.
func (l *link) called() string { return l.hello.Instance + others + l.node.ID }

// meet returns the filter of a link, and makes room for one that is new. As many
// are known of a node as may be linked, so one of them is not. mu is held.
func (r *Revoker) meet(l *link) *known {
	name := l.called()
	if k := r.known[name]; k != nil {
		return k
	}
	several := others + l.node.ID
	ofNode := func(name string) bool {
		instance, node, _ := strings.Cut(name, others)
		return instance != "" && node == l.node.ID
	}
	if r.knownOf[l.node.ID] >= r.o.MaxNodeLinks {
		r.merge(ofNode, several)
	}
	if len(r.known) >= 2*r.places.All() {
		r.merge(func(name string) bool { return nodeOf(name) != "" }, others)
	}
	k := &known{seen: r.o.Clock.Latest()}
	r.enter(name, k)
	return k
}

// enter and leave keep the tally. Whoever leaves may have been the last that a
// publication waited for. mu is held.
func (r *Revoker) enter(name string, k *known) {
	r.known[name] = k
	r.countOf(name, 1)
	r.tally.add(k.covered)
}

func (r *Revoker) leave(name string) {
	k := r.known[name]
	delete(r.known, name)
	r.countOf(name, -1)
	k.gone = true
	r.tally.remove(k.covered)
	r.advance()
}

// countOf counts a process among those of its node. mu is held.
func (r *Revoker) countOf(name string, n int) {
	instance, node, _ := strings.Cut(name, others)
	if instance == "" {
		return
	}
	if r.knownOf[node] += n; r.knownOf[node] == 0 {
		delete(r.knownOf, node)
	}
}

// merge remembers the one that was away the longest only as one of several, and
// so makes room once there are such of its hour. mu is held.
func (r *Revoker) merge(eligible func(name string) bool, several string) {
	oldest := ""
	for name, k := range r.known {
		if k.links == 0 && eligible(name) && (oldest == "" || k.seen.Before(r.known[oldest].seen)) {
			oldest = name
		}
	}
	if oldest == "" {
		return // the quotas of links bound them
	}
	r.among(several, r.known[oldest])
	r.leave(oldest)
}

// among remembers one as one of several: with those that were seen last in the same hour.
// Were it with all of them, those that have heard of the trust of the moment, and go on
// coming and going, would keep alive those that have not, for whom revocations may wait. So
// they are waited for an hour too long at most. Of two hours the one is left out that ends
// no later, and of which nobody has heard less. mu is held.
func (r *Revoker) among(several string, one *known) {
	name := several + others + strconv.FormatInt(one.seen.Unix()/int64(time.Hour/time.Second), 10)
	all := r.known[name]
	if all == nil {
		all = &known{welcomed: true, seen: one.seen, covered: one.covered}
		r.enter(name, all)
	}
	all.seen = later(all.seen, one.seen)
	r.cover(all, min(all.covered, one.covered))
	for other, k := range r.known {
		switch {
		case k == all || !strings.HasPrefix(other, others) || nodeOf(other) != nodeOf(name):
		case !k.seen.After(all.seen) && k.covered >= all.covered:
			r.leave(other)
		case !all.seen.After(k.seen) && all.covered >= k.covered:
			r.leave(name)
			return
		}
	}
}

// drop forgets the filter of a link. mu is held.
func (r *Revoker) drop(l *link) {
	if name := l.called(); r.known[name] == l.known {
		r.leave(name)
	}
}

// forgetOld forgets filters that were not seen for so long that they believe no
// Redis any more, and reports whether there were any. mu is held.
func (r *Revoker) forgetOld() (some bool) {
	some = r.forgetStrangers()
	now := r.o.Clock.Earliest()
	for name, k := range r.known {
		if k.links == 0 && now.Sub(k.seen) > contract.RememberFilter {
			r.leave(name)
			some = true
		}
	}
	return some
}

// remember persists which filters are known, and now and then the time. It is woken by
// changes; a write that fails is repeated with the next.
func (r *Revoker) remember() {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	failing := false // which is logged once
	for all, timely := false, true; ; {
		err := r.persistKnown(r.ctx, all)
		if err == nil && timely { // the filters go first: they may be noted as seen later, see load
			err = r.noteTimes(r.ctx)
		}
		if err != nil && r.ctx.Err() == nil && !failing {
			r.log.Error("known filters, or the time, could not be persisted, and will be", "error", err)
		}
		failing = err != nil
		all, timely = false, failing && timely
		select {
		case <-r.ctx.Done():
			return
		case <-r.seen:
		case <-tick.C:
			all, timely = true, true
		}
	}
}

// introduce returns when the filter of a link that has a place is in the store.
func (r *Revoker) introduce(l *link) error {
	r.persist.Lock()
	at, ok := r.written[l.called()]
	r.persist.Unlock()
	if ok && r.o.Clock.Latest().Sub(time.UnixMilli(at)) < rememberEvery {
		return nil
	}
	if err := r.persistKnown(r.ctx, false); err != nil {
		return fmt.Errorf("remember the filter: %w", err)
	}
	return nil
}

// snapshotKnown forgets filters that were not seen for too long. Those that stay
// linked were seen now, if all are to be noted.
func (r *Revoker) snapshotKnown(all bool) map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Clock.Latest()
	r.forgetOld()
	out := make(map[string]int64, len(r.known))
	for name, k := range r.known {
		if k.seen.After(now) { // the clock was ahead
			k.seen = now
		}
		if k.links > 0 && (all || now.Sub(k.seen) >= rememberEvery) {
			k.seen = now
		}
		out[name] = k.seen.UnixMilli()
	}
	return out
}

// persistKnown writes how what is known differs from what was written. A new name must
// outlive the loss of power: a process that does not know of a filter confirms what that
// may still accept. When one was last seen, and that one is gone, may be lost.
func (r *Revoker) persistKnown(ctx context.Context, all bool) error {
	r.persist.Lock()
	defer r.persist.Unlock()
	now := r.snapshotKnown(all)
	var gone, fresh []string
	for name := range r.written {
		if _, ok := now[name]; !ok {
			gone = append(gone, name)
		}
	}
	class := model.Credential
	for name, seen := range now {
		written := r.written[name]
		if written == 0 {
			class = model.Config
		}
		if written != seen {
			fresh = append(fresh, name)
		}
	}
	if len(gone)+len(fresh) == 0 {
		return nil
	}
	_, err := r.o.Store.Update(ctx, class, func(tx store.Tx) error {
		for _, name := range fresh {
			_, err := tx.Get(filters, "", name)
			if err := put(tx, &model.Resource{Kind: filters, Name: name, Spec: &Filter{Seen: now[name]}}, err); err != nil {
				return err
			}
		}
		for _, name := range gone {
			// One whose time was over may have gone by itself.
			if err := tx.Delete(filters, "", name, 0); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		return nil
	})
	if err == nil {
		r.written = now
		return nil
	}
	// A commit that failed may be found made by the next process. Who comes back meanwhile is
	// written again, and who does not is deleted again.
	for _, name := range gone {
		r.written[name] = 0
	}
	return err
}

// wakeSeen makes the owner persist the known filters.
func (r *Revoker) wakeSeen() {
	select {
	case r.seen <- struct{}{}:
	default: // it is awake
	}
}
