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

// known is a filter process that may read Redis, or a group of such processes of which
// nothing more is remembered. Its name, which is also the name of its row, is
//
//	instance@node   one process
//	@node@hour      processes of a node beyond the bound of the node, last seen in that
//	                hour; each of them may be alive
//	@@hour          processes of any node, beyond the overall bound
//
// So a node that invents instances costs a bounded number of rows, and no process that may
// be alive is forgotten too early. Older releases wrote one group row without an hour,
// which is read like any other row.
type known struct {
	// seen is when the process was last linked; in a group, the latest of these times.
	seen time.Time
	// links counts the links that are open or joining. latest is the link with the last
	// hello. A filter has one link at a time, and frames on its former links do not count.
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
	// of is the filters of its scope, of which it is one.
	of *audience
}

// others separates the instance from the node, and starts the name of a group.
const others = "@"

// rememberEvery is how often the time of linked filters is stored again. A filter that is
// welcomed may have been stored that long ago, and may stay linked that long before it is
// stored again. Both together must fit into the difference between
// [contract.RememberFilter] and the time that a filter believes Redis, including the case
// that its clock is set back.
const rememberEvery = 30 * time.Minute

func validInstance(s string) bool {
	return s != "" && len(s) <= maxInstance && !strings.Contains(s, others)
}

// called returns the name of the filter at a link.
func (l *link) called() string { return l.hello.Instance + others + l.node.ID }

// meet returns the filter of a link, and makes room for a new one. A node may have as many
// known filters as links. The new link has one of these places, so at least one of the
// known filters is not linked. mu is held.
func (r *Revoker) meet(l *link) *known {
	name := l.called()
	if k := r.known[name]; k != nil {
		if k.of.of == unknownOnes { // its scope could not be told from its name
			r.move(k, r.audience(l.node.ControlPlane))
		}
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
	k := &known{seen: r.o.Clock.Latest(), of: r.audience(l.node.ControlPlane)}
	r.enter(name, k)
	return k
}

// enter adds a filter to those that are known, and leave removes it. Both keep the tallies. A
// publication may have waited only for a filter that leaves. mu is held.
func (r *Revoker) enter(name string, k *known) {
	r.known[name] = k
	r.countOf(name, 1)
	r.tally.add(k.covered)
	k.of.tally.add(k.covered)
}

func (r *Revoker) leave(name string) {
	k := r.known[name]
	delete(r.known, name)
	r.countOf(name, -1)
	k.gone = true
	r.tally.remove(k.covered)
	k.of.tally.remove(k.covered)
	r.advance(k.of)
}

// countOf adds n to the number of processes of a node. mu is held.
func (r *Revoker) countOf(name string, n int) {
	instance, node, _ := strings.Cut(name, others)
	if instance == "" {
		return
	}
	if r.knownOf[node] += n; r.knownOf[node] == 0 {
		delete(r.knownOf, node)
	}
}

// merge moves the filter that was away the longest into a group. This makes room unless the
// group has to be created for its hour. mu is held.
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

// among adds a filter to the group of those that were last seen in the same hour. With one
// group for all hours, filters that have heard of the current trust and keep coming and
// going would keep alive filters that have not heard of it, and revocations might wait for
// those without end. With groups by the hour, the wait lasts at most one hour too long. A
// group is dropped if another group of the same scope ends no earlier and is covered no
// further, because waiting for the other group is enough. Everybody waits for a group of
// filters of several scopes. mu is held.
func (r *Revoker) among(several string, one *known) {
	name := several + others + strconv.FormatInt(one.seen.Unix()/int64(time.Hour/time.Second), 10)
	all := r.known[name]
	if all == nil {
		all = &known{welcomed: true, seen: one.seen, covered: one.covered, of: one.of}
		r.enter(name, all)
	} else if all.of != one.of {
		r.move(all, r.audience(unknownOnes))
	}
	all.seen = later(all.seen, one.seen)
	r.cover(all, min(all.covered, one.covered))
	for other, k := range r.known {
		switch {
		case k == all || !strings.HasPrefix(other, others) || nodeOf(other) != nodeOf(name):
		case k.of != all.of:
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

// forgetOld forgets filters that were not seen for so long that they no longer believe any
// Redis. It reports whether there were any. mu is held.
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

// remember persists the known filters, and at intervals the time. Changes wake it. A write
// that fails is repeated with the next one.
func (r *Revoker) remember() {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	failing := false // a failure is logged once
	for all, timely := false, true; ; {
		err := r.persistKnown(r.ctx, all)
		if err == nil && timely { // the filters go first: noting them too late is safe, see load
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

// snapshotKnown forgets filters that were not seen for too long, and returns when each
// other one was last seen. If all is set, every linked filter counts as seen now.
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

// persistKnown writes the differences between what is known and what was written. A new
// name must survive a loss of power: a process that does not know a filter would confirm
// revocations that the filter may not have seen. When a filter was last seen, and that it
// is gone, may be lost.
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
			// The row may have expired by itself.
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
	// The next process may find that a failed commit was made after all. So a filter that
	// returns in the meantime is written again, and the row of one that does not is deleted
	// again.
	for _, name := range gone {
		r.written[name] = 0
	}
	return err
}

// wakeSeen makes the owner persist the known filters.
func (r *Revoker) wakeSeen() {
	select {
	case r.seen <- struct{}{}:
	default: // it is awake already
	}
}
