package revoke

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// everything is covered of a filter that believes no Redis, until it is told
// otherwise.
const everything = contract.Position(math.MaxUint64)

// told is a trust that was sent on a link and is not on the filter's disk, as far
// as is known.
type told struct {
	at contract.Position
	// none says that it takes all trust away.
	none bool
}

// announce makes a trust the one in force and queues it on all links. mu is held.
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

// entrust notes what the filter of a link may have on its disk from now on. One
// whose disk takes nothing begins again with its next welcome. mu is held.
func (l *link) entrust(t told) {
	if len(l.told) >= maxUnacked {
		l.end()
	}
	l.told = append(l.told, t)
	if !t.none && l.known.covered == everything {
		// It still believes nothing, or this: all before it is covered either way.
		l.r.cover(l.known, t.at)
	}
}

// confirmTrust notes what the filter of a link has on its disk: the last trust up to
// a position. mu is held.
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

// cover notes up to where a filter can do without Redis holding the revocations:
// the trust on its disk is later, or none. mu is held.
func (r *Revoker) cover(k *known, at contract.Position) {
	if k.covered == at || k.gone {
		return
	}
	r.tally.remove(k.covered)
	k.covered = at
	r.tally.add(at)
	r.advance()
}

// tally counts filters by what they are covered up to.
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

// confirmed is the position up to which no known filter takes an old state from
// Redis. mu is held.
func (r *Revoker) confirmed() contract.Position {
	lowest := r.tally.lowest()
	switch {
	case r.awaitsOrder():
		return 0
	case lowest < r.serversAt:
		return lowest
	case r.keeper == nil:
		return everything
	}
	return max(lowest, r.redisAt)
}

// lacks reports whether a filter may take a state before a position from Redis. mu is
// held.
func (r *Revoker) lacks(k *known, at contract.Position) bool {
	return k.covered < at && (r.redisAt < at || k.covered < r.serversAt)
}

// told reports whether every known filter believes no other servers than those that
// are written to. mu is held.
func (r *Revoker) told() bool { return r.serversAt == 0 }

// advance settles the publications that are confirmed by now, and wakes those who
// wait for them. It is called after every event that can confirm one. mu is held.
func (r *Revoker) advance() {
	if !r.told() && r.tally.lowest() >= r.serversAt {
		r.serversAt = 0
		r.keeper.heard()
	}
	if r.waits.blocked || !r.told() {
		r.waits.look()
	}
	if len(r.unconfirmed) == 0 {
		return
	}
	at, n := r.confirmed(), 0
	for n < len(r.unconfirmed) && r.unconfirmed[n] <= at {
		n++
	}
	if n == 0 {
		return
	}
	r.unconfirmed = append(r.unconfirmed[:0], r.unconfirmed[n:]...)
	close(r.settled)
	r.settled = make(chan struct{})
}

// pend notes a position that has to be confirmed. mu is held.
func (r *Revoker) pend(at contract.Position) {
	if len(r.unconfirmed) >= maxUnconfirmed { // the last one stands for several
		r.unconfirmed[len(r.unconfirmed)-1] = at
	} else {
		r.unconfirmed = append(r.unconfirmed, at)
	}
	r.advance()
}

const maxUnconfirmed = 1 << 16

// repend notes a position for which somebody waits, in its place. It may have been confirmed
// before, and a filter that has come since does not know of it. Of too many a later one
// stands for it. mu is held.
func (r *Revoker) repend(at contract.Position) {
	if i, noted := slices.BinarySearch(r.unconfirmed, at); !noted && len(r.unconfirmed) < maxUnconfirmed {
		r.unconfirmed = slices.Insert(r.unconfirmed, i, at)
	}
}

// drawEpoch draws a number that no store and no Redis that goes back can meet again.
func drawEpoch() contract.Epoch {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // it never fails
		if e := contract.Epoch(binary.BigEndian.Uint64(b[:])); e != 0 {
			return e
		}
	}
}

// persistEpoch stores what is known of Redis before it is used.
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

// Restored makes a store that was taken from a backup believe nothing that it
// remembers of Redis: since the backup other records may have been written there with
// its epoch, and filters told of other servers. No filter is ever told of the epoch
// that it stores, and the first process on the store draws another one. Every filter
// that the store knows counts as seen when that process begins.
func Restored(ctx context.Context, s store.Store) error {
	return writeEpoch(ctx, s, Epoch{Epoch: drawEpoch(), Forgotten: true}, stillSeen)
}

// stillSeen has every known filter seen no earlier than the time that the store knows.
// It may have been linked until the host of the former process was lost, long after the
// backup. The next process adds what has passed since by its own clock (resumeTime), so the
// clock of whoever restores does not matter.
func stillSeen(tx store.Tx) error {
	rows, err := tx.List(filters, store.Query{})
	if err != nil {
		return err
	}
	var at int64
	row, err := tx.Get(times, "", singleton)
	if err == nil {
		at = row.Spec.(*Times).Earliest
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	for _, f := range rows {
		at = max(at, f.Spec.(*Filter).Seen)
	}
	for _, f := range rows {
		if err := put(tx, &model.Resource{Kind: filters, Name: f.Name, Spec: &Filter{Seen: at}}, nil); err != nil {
			return err
		}
	}
	if row != nil || len(rows) == 0 {
		return nil
	}
	// A backup of an older release knows no time, and that one is when it saw the last one.
	return put(tx, &model.Resource{Kind: times, Name: singleton, Spec: &Times{Earliest: at}}, err)
}

// storedEpoch reads what was persisted. A store on which nothing was begins after processes
// of which it knows nothing: it is in memory, or takes the place of one that was lost. A
// new installation cannot be told from that.
func storedEpoch(tx store.Reader) (Epoch, error) {
	row, err := tx.Get(epochs, "", singleton)
	switch {
	case err == nil:
		e := *row.Spec.(*Epoch)
		e.Forgotten = e.Forgotten || e.Epoch != 0 && e.Log == "" // restored by an older release
		return e, nil
	case fault.Is(err, fault.NotFound):
		return Epoch{Forgotten: true}, nil
	}
	return Epoch{}, err
}
