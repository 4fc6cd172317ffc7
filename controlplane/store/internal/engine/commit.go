package engine

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// SweepLimit bounds the expired rows that one transaction removes. Rows that are removed with
// them do not count.
const SweepLimit = 256

// Result is what a transaction hands over to its backend.
type Result struct {
	Commit store.Commit
	// Events are the events of the commit with their revision; none if it took no revision.
	Events []store.Event
	// Earliest is the earliest expiry of the written rows, 0 if none expires.
	Earliest int64
}

// Finish ends the transaction and determines its revision; the backend then makes it durable.
// It fails if the backend has failed before, even if the caller of Update ignored that. It
// keeps as many change records as limits says.
func (t *Tx) Finish(limits store.Retention) (Result, error) {
	t.End()
	if t.broken != nil {
		return Result{}, t.broken
	}
	rev := t.revision()
	for _, c := range t.changes {
		// It was written before it was known that the commit announces something.
		if c.New == nil || c.New.Revision == rev {
			continue
		}
		c.New.Revision = rev
		if err := t.rows.Restamp(c.New); err != nil {
			return Result{}, t.fail(err)
		}
	}
	if err := t.keep(rev, limits); err != nil {
		return Result{}, err
	}
	for i := range t.events {
		t.events[i].Revision = rev
	}
	return Result{Commit: store.Commit{Revision: rev, Changes: t.Changes()}, Events: t.events, Earliest: t.earliest}, nil
}

// Strict reports whether the transaction needs the durability of [model.Config] although it
// was declared laxer.
func (t *Tx) Strict() bool { return t.strict && t.class != model.Config }

// Wrote reports whether there is anything to make durable.
func (t *Tx) Wrote() bool { return len(t.changes) > 0 || len(t.events) > 0 || len(t.records) > 0 }

// Touched reports whether rows may have been written, also if the transaction fails.
func (t *Tx) Touched() bool { return len(t.changes) > 0 || t.broken != nil }

// Sweep removes up to [SweepLimit] expired rows with everything that depends on them. n is
// the number of expired rows that it found; more says that there may be others.
func (t *Tx) Sweep() (n int, more bool, err error) {
	over, err := t.rows.Expired(t.millis, SweepLimit)
	if err != nil {
		return 0, false, t.fail(err)
	}
	gone := make(map[model.Key]bool, len(over))
	for _, r := range over {
		if gone[r.Key()] { // removed with an earlier row
			continue
		}
		doomed, err := t.closure(r, false)
		if err != nil {
			return 0, false, err
		}
		if err := t.remove(doomed); err != nil {
			return 0, false, err
		}
		for _, d := range doomed {
			gone[d.Key()] = true
		}
	}
	return len(over), len(over) == SweepLimit, nil
}

// revision returns the revision that the commit would have if it ended now.
func (t *Tx) revision() uint64 {
	if len(t.events) > 0 {
		return t.rows.Revision() + 1
	}
	return t.rows.Revision()
}

func (t *Tx) watchExpiry(at int64) {
	if at != 0 && (t.earliest == 0 || at < t.earliest) {
		t.earliest = at
	}
}

// Alarm wakes a store when rows have expired. It goes off with a small delay, so that rows
// that end shortly after one another are removed in one transaction. Reads do not depend on
// it. Its owner serialises all calls; receiving from C needs no lock.
type Alarm struct {
	timer *time.Timer
	at    int64
}

// alarmSlack is the delay of an alarm. alarmSpan bounds one wait, so that a far or wrong
// expiry is checked again.
const (
	alarmSlack = 200 * time.Millisecond
	alarmSpan  = time.Hour
)

// NewAlarm returns an alarm that is not set.
func NewAlarm() *Alarm {
	t := time.NewTimer(alarmSpan)
	t.Stop()
	return &Alarm{timer: t}
}

// C yields when the alarm goes off.
func (a *Alarm) C() <-chan time.Time { return a.timer.C }

// Set makes the alarm go off when the time at (in milliseconds; 0 = never) has passed, unless
// it already goes off earlier.
func (a *Alarm) Set(at int64, now time.Time) {
	if at == 0 || (a.at != 0 && a.at <= at) {
		return
	}
	a.at = at
	wait := alarmSpan
	if span := at - now.UnixMilli(); span < alarmSpan.Milliseconds() {
		wait = time.Duration(max(span, 0))*time.Millisecond + alarmSlack
	}
	a.timer.Reset(wait)
}

// Clear forgets what the alarm was set to, after it went off.
func (a *Alarm) Clear() { a.at = 0 }

// Stop ends the alarm.
func (a *Alarm) Stop() { a.timer.Stop() }
