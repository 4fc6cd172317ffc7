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
		if err == nil && all {
			err = r.forgetReaders(r.ctx)
		}
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

// introduce returns when the filter of a link that has a place is in the store. A write that
// does not concern the filter is not waited for.
func (r *Revoker) introduce(l *link) error {
	if r.noted(l.called()) {
		return nil
	}
	if err := r.storeKnown(); err != nil {
		return fmt.Errorf("remember the filter: %w", err)
	}
	return nil
}

// noted reports whether the next process would remember a filter for long enough by its row
// as it is. That is so if the filter was linked a short time ago, or a short time before
// the time that is stored: what has passed since that time, the next process adds; see
// load. So a disk that takes no writes keeps out no filter that it has let in, however
// long this lasts. noteTimes stores no time for which the row would be too old.
func (r *Revoker) noted(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.written[name]
	if at == 0 {
		return false
	}
	seen := time.UnixMilli(at)
	if r.o.Clock.Latest().Sub(seen) < rememberEvery {
		return true
	}
	if r.noteAt == 0 || time.UnixMilli(r.noteAt).Sub(seen) > rememberEvery {
		return false
	}
	r.wakeSeen()
	return true
}

// outdated reports whether the row of a filter is too old for a time that is to be stored.
// The filter was let in, by the time that was stored before, since the rows were written.
// The next process may take a further unmeasured time for none. All this together must fit
// into the difference of which [rememberEvery] speaks. mu is held.
func (r *Revoker) outdated(at time.Time) bool {
	for name, k := range r.known {
		last := k.seen
		if k.links > 0 {
			last = later(last, at)
		}
		// Without a row it has not been let in.
		if row := r.written[name]; row != 0 && last.Sub(time.UnixMilli(row)) > rememberEvery+unmeasured {
			return true
		}
	}
	return false
}

// knownWrite is a write of the known filters that has not begun.
type knownWrite struct {
	ended chan struct{} // closed when err is set
	err   error
}

var errStoreSlow = fault.New(fault.Unavailable, "the store takes too long")

// storeKnown has remember write what is known now, and returns when that is stored or has
// failed. A disk that stalls is not waited for: the caller can come again, and the write
// goes on.
func (r *Revoker) storeKnown() error {
	r.mu.Lock()
	if r.next == nil {
		r.next = &knownWrite{ended: make(chan struct{})}
	}
	w := r.next
	r.mu.Unlock()
	r.wakeSeen()
	late := time.NewTimer(storeTimeout)
	defer late.Stop()
	select {
	case <-w.ended:
		return w.err
	case <-late.C:
		return errStoreSlow
	case <-r.ctx.Done():
		return errClosing
	}
}

// snapshotKnown forgets filters that were not seen for too long, and returns when each
// other one was last seen, and the names of those that are to be deleted. If all is set,
// every linked filter counts as seen now. w, if not nil, waits for this snapshot.
func (r *Revoker) snapshotKnown(all bool) (seen map[string]int64, gone []string, w *knownWrite) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, r.next = r.next, nil
	now := r.o.Clock.Latest()
	r.forgetOld()
	seen = make(map[string]int64, len(r.known))
	for name, k := range r.known {
		if k.seen.After(now) { // the clock was ahead
			k.seen = now
		}
		if k.links > 0 && (all || now.Sub(k.seen) >= rememberEvery) {
			k.seen = now
		}
		seen[name] = k.seen.UnixMilli()
	}
	for name := range r.written {
		if _, ok := seen[name]; !ok {
			gone = append(gone, name)
			r.written[name] = 0 // see writeKnown
		}
	}
	return seen, gone, w
}

// persistKnown writes the differences between what is known and what was written. One
// goroutine calls it at a time: an older snapshot would remove a filter that was just
// introduced.
func (r *Revoker) persistKnown(ctx context.Context, all bool) error {
	seen, gone, w := r.snapshotKnown(all)
	err := r.writeKnown(ctx, seen, gone)
	if w != nil {
		w.err = err
		close(w.ended)
	}
	return err
}

// writeKnown is persistKnown for a snapshot. A new name must survive a loss of power: a
// process that does not know a filter would confirm revocations that the filter may not
// have seen. When a filter was last seen, and that it is gone, may be lost.
//
// A row that is being deleted counts as unknown from the snapshot on, and does so if the
// write fails. So a filter that returns in the meantime is written again, and the row of
// one that does not is deleted again.
func (r *Revoker) writeKnown(ctx context.Context, seen map[string]int64, gone []string) error {
	var fresh []string
	class := model.Credential
	r.mu.Lock()
	for name, at := range seen {
		written := r.written[name]
		if written == 0 {
			class = model.Config
		}
		if written != at {
			fresh = append(fresh, name)
		}
	}
	r.mu.Unlock()
	if len(gone)+len(fresh) == 0 {
		return nil
	}
	_, err := r.o.Store.Update(ctx, class, func(tx store.Tx) error {
		for _, name := range fresh {
			_, err := tx.Get(filters, "", name)
			if err := put(tx, &model.Resource{Kind: filters, Name: name, Spec: &Filter{Seen: seen[name]}}, err); err != nil {
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
		r.mu.Lock()
		r.written = seen
		r.mu.Unlock()
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
