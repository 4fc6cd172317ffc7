package revoke

import (
	"context"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// Clock says within what bounds the wall clock can be believed; see package steady.
//
// A revocation is forgotten by the earliest time, and remembered from the latest on. A
// record ends a day after the earliest. So a record from before a revocation has ended,
// by a clock that is right, when the revocation is forgotten, if that clock was within
// the bounds when the record was made: that is, unless the clock of the control plane
// was ahead for all of [steady.Window]. Records of a clock that was ahead and has come
// back may outlive what is remembered from then on; a new epoch voids them.
type Clock interface {
	// Earliest and Latest are what the time can be.
	Earliest() time.Time
	Latest() time.Time
	// Note says what another clock tells now.
	Note(at time.Time)
}

// taken is a wall clock that is taken at its word.
type taken struct{ now func() time.Time }

// Earliest implements [Clock].
func (c taken) Earliest() time.Time { return c.now() }

// Latest implements [Clock].
func (c taken) Latest() time.Time { return c.now() }

// Note implements [Clock].
func (taken) Note(time.Time) {}

// unmeasured is how much time may have passed at most between the end of a process and
// the begin of the next one, by a clock that nobody has watched, for what the former has
// left to be believed. A tombstone outlives its records by as much.
const unmeasured = expiryMargin

// Times is the time as a process knew it when it began, every half an hour, and when it
// ended.
type Times struct {
	// Earliest is what the time could be, in milliseconds of Unix time.
	Earliest int64 `json:"earliest"`
	// Until is when the last record ends that was written so far. It is right if the
	// process has ended in good order; after any other end no record counts.
	Until int64 `json:"until,omitempty"`
	// Unmended says that a process began so long after Earliest that revocations may have
	// been forgotten since, and that what this demands was not in force yet when it ended.
	Unmended bool `json:"unmended,omitempty"`
}

var times = &model.Kind{
	Name: "revocation_time", Path: "revocation-times", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
	New: func() any { return new(Times) },
}

// NoteTime tells a clock what the time was when the last process on a store ended, if
// that was little ago. It comes before the first row of the store is taken to have ended:
// what has ended by the wall clock alone may not have ended at all.
//
// If it was not little ago, the store has to remember that before it removes a row. The
// clock may be set right before the next process begins, which would see no gap, nor what
// was removed in it.
func NoteTime(tx store.Tx, clock Clock) error {
	last, gap, err := resumeTime(tx, clock)
	if err != nil || gap == 0 || last.Unmended {
		return err
	}
	last.Unmended = true
	return put(tx, &model.Resource{Kind: times, Name: singleton, Spec: &last}, nil)
}

// resumeTime returns what the last process knew of the time, and how much has passed
// since by the clock alone. A little is taken for not passed at all, in addition to that
// of earlier restarts.
func resumeTime(tx store.Reader, clock Clock) (last Times, gap time.Duration, err error) {
	row, err := tx.Get(times, "", singleton)
	if fault.Is(err, fault.NotFound) {
		return last, 0, nil
	}
	if err != nil {
		return last, 0, err
	}
	last = *row.Spec.(*Times)
	at := time.UnixMilli(last.Earliest)
	if gap = max(0, clock.Earliest().Sub(at)); gap <= unmeasured {
		gap = 0
		clock.Note(at)
	}
	return last, gap, nil
}

// noteTimes stores the time. What it was before is needed until that is in force what a
// gap demands: a process that ends before would hide the gap from the next one. That is
// over once: servers that are replaced later say nothing of a gap, and the time has to be
// noted for as long as records are written.
func (r *Revoker) noteTimes(ctx context.Context) error {
	if r.hidden && !r.timed.Load() && !r.mended() {
		return nil
	}
	until := r.keeper.ends()
	_, err := r.o.Store.Update(ctx, model.Credential, func(tx store.Tx) error {
		_, err := tx.Get(times, "", singleton)
		return put(tx, &model.Resource{Kind: times, Name: singleton, Spec: &Times{Earliest: r.o.Clock.Earliest().UnixMilli(), Until: until}}, err)
	})
	if err != nil {
		return fmt.Errorf("note the time: %w", err)
	}
	r.timed.Store(true)
	return nil
}

// until is when a record that is read now is too old to be used in Redis. Where the clock
// of Redis is far behind, one of the two is ahead, and it may be this one.
func (k *keeper) until() int64 {
	now := k.r.o.Clock.Earliest()
	if ahead := time.Duration(k.ahead.Load()); ahead < -unmeasured {
		if there := k.r.o.Now().Add(ahead); there.Before(now) {
			now = there
		}
	}
	return now.Add(contract.RecordLife).UnixMilli()
}

// mended reports whether no filter takes anything any more from a Redis as it was before a
// gap: it was put in order under another epoch, and no filter believes one that was there
// before it; or they have heard that there is none.
func (r *Revoker) mended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told() && (r.keeper == nil || r.redisAt != 0)
}

// ends says when the last record ends. After a process without Redis no record counts.
func (k *keeper) ends() int64 {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// outlived says that there may be records in Redis which end later than a revocation of
// now would be remembered: the clock was ahead when they were written. mu is held.
func (k *keeper) outlived() bool { return k.last > k.r.lasting(0) }

func (k *keeper) isOutlived() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.outlived()
}

// count notes when a record ends that is about to be written.
func (k *keeper) count(until int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = max(k.last, until)
}
