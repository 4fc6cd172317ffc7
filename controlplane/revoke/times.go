package revoke

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// Clock gives the bounds within which the wall clock can be trusted; see package steady.
//
// A revocation is remembered for a time that starts at the latest possible time, and
// forgotten by the earliest possible time. A record ends a day after the earliest possible
// time of its making. So when a revocation is forgotten, the records from before it have
// ended, provided that the real time was within the bounds when they were made. That fails
// only if the control plane's clock was ahead for all of [steady.Window]. If such a clock
// has come back, records from that time may outlive what is remembered from then on; a new
// epoch voids them.
type Clock interface {
	// Earliest and Latest are the bounds of the present time.
	Earliest() time.Time
	Latest() time.Time
	// Note tells the clock what another clock shows now.
	Note(at time.Time)
}

// taken is a wall clock that is trusted as it is.
type taken struct{ now func() time.Time }

// Earliest implements [Clock].
func (c taken) Earliest() time.Time { return c.now() }

// Latest implements [Clock].
func (c taken) Latest() time.Time { return c.now() }

// Note implements [Clock].
func (taken) Note(time.Time) {}

// unmeasured is the longest time that may have passed between the end of a process and the
// start of the next one, by an unobserved clock, if the next one is to trust what the first
// has left. A tombstone outlives its records by this time.
const unmeasured = expiryMargin

// Times is the time as a process knew it when it started, every half hour, and when it
// ended.
type Times struct {
	// Earliest is the earliest possible time, in milliseconds of Unix time.
	Earliest int64 `json:"earliest"`
	// Until is when the last record ends that was written so far. It is correct if the
	// process has ended in good order. After any other end no record counts.
	Until int64 `json:"until,omitempty"`
	// Unmended says that a process started so long after Earliest that revocations may have
	// been forgotten since, and that the measures against this were not yet in force when
	// it ended.
	Unmended bool `json:"unmended,omitempty"`
}

var times = &model.Kind{
	Name: "revocation_time", Path: "revocation-times", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
	New: func() any { return new(Times) },
}

// NoteTime tells a clock the time at which the last process on a store ended, if that was
// recently. It must be called before any row of the store counts as expired: what has
// expired only by the wall clock may not have expired at all.
//
// If the last process did not end recently, the store has to remember that before it
// removes a row. Otherwise the clock may be corrected before the next process starts, which
// would see neither the gap nor what was removed during it.
func NoteTime(tx store.Tx, clock Clock) error {
	last, gap, err := resumeTime(tx, clock)
	if err != nil || gap == 0 || last.Unmended {
		return err
	}
	last.Unmended = true
	return put(tx, &model.Resource{Kind: times, Name: singleton, Spec: &last}, nil)
}

// resumeTime returns what the last process knew of the time, and how much time has passed
// since by the wall clock alone. A short time counts as no gap; such times of several
// restarts add up.
func resumeTime(tx store.Reader, clock Clock) (last Times, gap time.Duration, err error) {
	row, err := readable(tx.Get(times, "", singleton))
	if fault.Is(err, fault.NotFound) {
		return last, 0, nil
	}
	if err != nil {
		return last, 0, err
	}
	last = timesIn(row)
	at := time.UnixMilli(last.Earliest)
	if gap = max(0, clock.Earliest().Sub(at)); gap <= unmeasured {
		gap = 0
		clock.Note(at)
	}
	return last, gap, nil
}

// noteTimes stores the time. If there is a gap, the old time is kept until the measures
// that the gap demands are in force: if this process ended before that, the new time would
// hide the gap from the next process. After the first write this no longer matters. Servers
// that are replaced later say nothing about a gap, and the time has to be stored for as
// long as records are written.
func (r *Revoker) noteTimes(ctx context.Context) error {
	if r.hidden && !r.timed.Load() && !r.mended() {
		return nil
	}
	at, before, err := r.beginNote()
	if err != nil {
		return err
	}
	until := r.keeper.ends()
	_, err = r.o.Store.Update(ctx, model.Credential, func(tx store.Tx) error {
		_, err := tx.Get(times, "", singleton)
		return put(tx, &model.Resource{Kind: times, Name: singleton, Spec: &Times{Earliest: at, Until: until}}, err)
	})
	r.endNote(at, before, err)
	if err != nil {
		return fmt.Errorf("note the time: %w", err)
	}
	r.timed.Store(true)
	return nil
}

var errOutdated = errors.New("the time is not stored before a filter that was let in since")

// beginNote returns the time that is to be stored, and what noteAt was. Filters are let in
// by the new time from now on.
func (r *Revoker) beginNote() (at, before int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Clock.Earliest()
	if r.outdated(now) {
		return 0, 0, errOutdated
	}
	at, before = now.UnixMilli(), r.noteAt
	r.noteAt = max(at, before)
	return at, before, nil
}

// endNote notes what became of that. If nobody knows, the later time counts.
func (r *Revoker) endNote(at, before int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.noteAt = at
	case !errors.Is(err, store.ErrUndecided):
		r.noteAt = before
	}
}

// until returns when a record that is read now becomes too old for use in Redis. If the
// clock of Redis is far behind, either of the two clocks may be wrong, so the earlier one
// is used.
func (k *keeper) until() int64 {
	now := k.r.o.Clock.Earliest()
	if ahead := time.Duration(k.ahead.Load()); ahead < -unmeasured {
		if there := k.r.o.Now().Add(ahead); there.Before(now) {
			now = there
		}
	}
	return now.Add(contract.RecordLife).UnixMilli()
}

// mended reports whether no filter can use a Redis as it was before a gap. Either Redis was
// put in order under another epoch, and no filter believes servers that were used before.
// Or there is no Redis, and all filters have heard that.
func (r *Revoker) mended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told() && (r.keeper == nil || r.redisAt != 0)
}

// ends returns when the last record ends. It is 0 without Redis, because no record counts
// then.
func (k *keeper) ends() int64 {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// outlived reports whether Redis may hold records that end later than a revocation of this
// moment would be remembered. The clock was ahead when they were written. mu is held.
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
