package revoke

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// everything is the covered position of a filter that believes no Redis until it is told
// otherwise.
const everything = contract.Position(math.MaxUint64)

// told is a trust that was sent on a link and is not known to be on the filter's disk.
type told struct {
	at contract.Position
	// none says that the message withdraws all trust.
	none bool
}

// announce puts a trust in force and queues it on all links. mu is held.
func (r *Revoker) announce(t contract.Trust) {
	r.trust, r.trustAt = t, r.history.tick()
	body, err := contract.EncodeJSON(contract.TrustChange{At: r.trustAt, Trust: t})
	for l := range r.links {
		if err != nil { // numbers and short texts always encode
			l.end()
			continue
		}
		l.sent(r.trustAt, nil)
		l.push(frame{contract.FrameTrust, body})
		l.entrust(told{r.trustAt, t.Epoch == 0})
	}
	r.waits.look()
}

func sameTrust(a, b contract.Trust) bool {
	return a.Epoch == b.Epoch && slices.Equal(a.Servers, b.Servers)
}

// entrust notes what the filter of a link may have on its disk from now on. A filter whose
// disk accepts nothing for too long is disconnected, and starts again with its next
// welcome. mu is held.
func (l *link) entrust(t told) {
	if len(l.told) >= maxUnacked {
		l.end()
	}
	l.told = append(l.told, t)
	if !t.none && l.known.covered == everything {
		// The filter believes either nothing or this trust. Everything before it is covered
		// in both cases.
		l.r.cover(l.known, t.at)
	}
}

// confirmTrust notes that the filter of a link has stored the last trust up to a position
// on its disk. mu is held.
func (l *link) confirmTrust(at contract.Position) {
	n := 0
	for n < len(l.told) && l.told[n].at <= at {
		n++
	}
	if n == 0 {
		return
	}
	t := l.told[n-1]
	l.told = l.told[n:]
	covered := max(t.at, l.known.covered)
	if t.none {
		covered = everything
		for i := range l.told {
			if !l.told[i].none {
				covered = l.told[i].at
				break
			}
		}
	}
	l.r.cover(l.known, covered)
}

// cover notes the position up to which a filter does not depend on revocations being in
// Redis, because the trust on its disk is later, or there is none. mu is held.
func (r *Revoker) cover(k *known, at contract.Position) {
	if k.covered == at || k.gone {
		return
	}
	r.tally.remove(k.covered)
	k.of.tally.remove(k.covered)
	k.covered = at
	r.tally.add(at)
	k.of.tally.add(at)
	r.advance(k.of)
}

// tally counts filters by the position that they are covered up to.
type tally map[contract.Position]int

func (t tally) add(at contract.Position) { t[at]++ }

func (t tally) remove(at contract.Position) {
	if t[at]--; t[at] <= 0 {
		delete(t, at)
	}
}

func (t tally) lowest() contract.Position {
	lowest := everything
	for at := range t {
		lowest = min(lowest, at)
	}
	return lowest
}

// confirmed returns the position up to which no known filter that a matter concerns takes an
// old state from Redis. mu is held.
func (r *Revoker) confirmed(m *matter) contract.Position {
	if r.awaitsOrder() {
		return 0
	}
	at := everything
	for _, a := range r.audiences {
		if by := r.confirmedBy(a.tally); by < at && r.reaches(m, a) {
			at = by
		}
	}
	return at
}

// confirmedBy returns the position up to which none of some filters takes an old state from
// Redis. mu is held.
func (r *Revoker) confirmedBy(t tally) contract.Position {
	lowest := t.lowest()
	switch {
	case lowest < r.serversAt:
		return lowest
	case r.keeper == nil:
		return everything
	}
	return max(lowest, r.redisAt)
}

// lacks reports whether a filter may take a state before a position from Redis. mu is held.
func (r *Revoker) lacks(k *known, at contract.Position) bool {
	return k.covered < at && (r.redisAt < at || k.covered < r.serversAt)
}

// told reports whether every known filter believes only the servers that are written to
// now. mu is held.
func (r *Revoker) told() bool { return r.serversAt == 0 }

// advance settles the publications that are confirmed by now, and wakes the callers that
// wait for them. It is called after every event that can confirm a publication. of is whose
// filters the event is about, nil if it is about all. mu is held.
func (r *Revoker) advance(of *audience) {
	if !r.told() && r.tally.lowest() >= r.serversAt {
		r.serversAt, of = 0, nil
		r.keeper.heard()
	}
	r.knowSure()
	if r.waits.blocked || !r.told() {
		r.waits.look()
	}
	some := false
	for _, w := range r.unconfirmed {
		if of == nil || of.unsure > 0 || w.about.all || w.about.names(of) {
			some = r.settleUpTo(w, r.confirmed(&w.about)) || some
		}
	}
	if some {
		r.wakeCallers()
	}
}

// knowSure forgets that a predecessor may have told filters what this process does not know, once
// that does not matter any more: every known filter believes only the Redis that is written to
// now, and this process has written there what each scope consists of. Filters take nothing else
// from there, whatever they were told. It does not hold for filters that nobody remembers, nor
// for those of which nobody knows the scope. mu is held.
func (r *Revoker) knowSure() {
	if r.doubted == 0 || r.keeper == nil || !r.told() || r.strangers || r.redisAt < r.doubted {
		return
	}
	for _, a := range r.audiences {
		if a.unsure <= r.doubted {
			a.unsure = 0
		}
	}
	r.unsure, r.doubted = 0, 0
}

// outstanding are the positions, in order, of what has to be confirmed of one matter.
type outstanding struct {
	about matter
	at    []contract.Position
}

// unsettled counts the positions that have to be confirmed. Several may ask for one. mu is held.
func (r *Revoker) unsettled() int {
	all := map[contract.Position]struct{}{}
	for _, w := range r.unconfirmed {
		for _, at := range w.at {
			all[at] = struct{}{}
		}
	}
	return len(all)
}

// outstandingOf returns those of a matter. mu is held.
func (r *Revoker) outstandingOf(m matter) *outstanding {
	key := m.key()
	w := r.unconfirmed[key]
	if w == nil {
		w = &outstanding{about: m}
		r.unconfirmed[key] = w
	}
	return w
}

// settleUpTo removes positions that are confirmed. It reports whether there were any. mu is
// held.
func (r *Revoker) settleUpTo(w *outstanding, at contract.Position) (some bool) {
	n := 0
	for n < len(w.at) && w.at[n] <= at {
		n++
	}
	w.at = append(w.at[:0], w.at[n:]...)
	if r.pending -= n; len(w.at) == 0 {
		delete(r.unconfirmed, w.about.key())
	}
	return n > 0
}

// pend notes a position that has to be confirmed of a matter. mu is held.
func (r *Revoker) pend(at contract.Position, m matter) {
	w := r.outstandingOf(m)
	if n := len(w.at); n > 0 && r.pending >= maxUnconfirmed { // the last position stands for several
		w.at[n-1] = at
	} else {
		w.at = append(w.at, at)
		r.pending++
	}
	if r.settleUpTo(w, r.confirmed(&m)) {
		r.wakeCallers()
	}
}

// wakeCallers has those look again who wait for a publication. mu is held.
func (r *Revoker) wakeCallers() {
	close(r.settled)
	r.settled = make(chan struct{})
}

// maxUnconfirmed bounds the positions that have to be confirmed. Beyond it there is one of each
// matter.
const maxUnconfirmed = 1 << 16

// repend notes again a position that a caller waits for. The position may have been
// confirmed before, and a filter that has come since does not know of it. If there are too
// many positions, a later one stands for it. mu is held.
func (r *Revoker) repend(at contract.Position, m matter) {
	if r.pending >= maxUnconfirmed {
		return
	}
	w := r.outstandingOf(m)
	if i, noted := slices.BinarySearch(w.at, at); !noted {
		w.at = slices.Insert(w.at, i, at)
		r.pending++
	}
}

// drawEpoch draws a random number, so that a store or a Redis that goes back never meets
// the same epoch again.
func drawEpoch() contract.Epoch {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // it never fails
		if e := contract.Epoch(binary.BigEndian.Uint64(b[:])); e != 0 {
			return e
		}
	}
}

// persistEpoch stores the state of Redis before that Redis is used.
func (r *Revoker) persistEpoch(ctx context.Context, e Epoch) error {
	return writeEpoch(ctx, r.o.Store, e)
}

func writeEpoch(ctx context.Context, s store.Store, e Epoch, more ...func(store.Tx) error) error {
	_, err := s.Update(ctx, model.Config, func(tx store.Tx) error {
		_, err := tx.Get(epochs, "", singleton)
		err = put(tx, &model.Resource{Kind: epochs, Name: singleton, Spec: &e}, err)
		for _, do := range more {
			if err == nil {
				err = do(tx)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("persist the epoch: %w", err)
	}
	return nil
}

// Restored is called for a store that was restored from a backup. It makes the store forget
// what it knows about Redis: since the backup other records may have been written there
// with its epoch, and filters may have been told of other servers. No filter is ever told
// of the epoch that Restored stores, and the first process on the store draws another one.
// Every filter that the store knows counts as seen when that process starts.
func Restored(ctx context.Context, s store.Store) error {
	return writeEpoch(ctx, s, Epoch{Epoch: drawEpoch(), Forgotten: true}, stillSeen)
}

// stillSeen makes every known filter count as seen no earlier than the last time that the
// store knows. A filter may have been linked until the host of the former process was lost,
// long after the backup. The next process adds what has passed since by its own clock
// (resumeTime), so the clock of the host that restores does not matter.
func stillSeen(tx store.Tx) error {
	rows, err := store.ListAll(tx, filters, store.Query{})
	if err != nil {
		return err
	}
	var at int64
	row, err := readable(tx.Get(times, "", singleton))
	if err == nil {
		at = timesIn(row).Earliest
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	for _, f := range rows {
		seen, _ := seenIn(f)
		at = max(at, seen)
	}
	for _, f := range rows {
		_, err := tx.Get(filters, "", f.Name)
		if err := put(tx, &model.Resource{Kind: filters, Name: f.Name, Spec: &Filter{Seen: at}}, err); err != nil {
			return err
		}
	}
	if row != nil || len(rows) == 0 {
		return nil
	}
	// A backup of an older release has no time. The time at which it saw the last filter is
	// used instead.
	return put(tx, &model.Resource{Kind: times, Name: singleton, Spec: &Times{Earliest: at}}, err)
}

// storedEpoch reads what was persisted. If there is nothing, the store is treated as one
// that follows unknown processes: it is in memory, or replaces a store that was lost. A new
// installation looks the same.
func storedEpoch(tx store.Reader) (Epoch, error) {
	row, err := tx.Get(epochs, "", singleton)
	switch {
	case errors.Is(err, store.ErrUnreadable): // what was told before is not known any more
		return Epoch{Forgotten: true}, nil
	case err == nil:
		e := *row.Spec.(*Epoch)
		e.Forgotten = e.Forgotten || e.Epoch != 0 && e.Log == "" // restored by an older release
		return e, nil
	case fault.Is(err, fault.NotFound):
		return Epoch{Forgotten: true}, nil
	}
	return Epoch{}, err
}
