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
}

var times = &model.Kind{
	Name: "revocation_time", Path: "revocation-times", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
	New: func() any { return new(Times) },
}

// loadTimes finds out how much time has passed since the last process by the clock
// alone: nobody knows whether it has passed. A little is taken for not passed at all,
// in addition to that of earlier restarts.
func (r *Revoker) loadTimes(tx store.Reader) error {
	row, err := tx.Get(times, "", singleton)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r.last = *row.Spec.(*Times)
	at := time.UnixMilli(r.last.Earliest)
	if r.gap = max(0, r.o.Clock.Earliest().Sub(at)); r.gap <= unmeasured {
		r.gap = 0
		r.o.Clock.Note(at)
	}
	return nil
}

// noteTimes stores the time. What it was before is needed until the epoch is stored that
// a gap demands.
func (r *Revoker) noteTimes(ctx context.Context) error {
	decided, until := r.keeper.decided()
	if r.gap > 0 && !decided {
		return nil
	}
	_, err := r.o.Store.Update(ctx, model.Credential, func(tx store.Tx) error {
		_, err := tx.Get(times, "", singleton)
		return put(tx, &model.Resource{Kind: times, Name: singleton, Spec: &Times{r.o.Clock.Earliest().UnixMilli(), until}}, err)
	})
	if err != nil {
		return fmt.Errorf("note the time: %w", err)
	}
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

// decided reports whether an epoch of this process is stored, and when the last record
// ends. Without Redis there is nothing to decide.
func (k *keeper) decided() (yes bool, until int64) {
	if k == nil {
		return true, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stored.Log == k.r.history.id, k.last
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
