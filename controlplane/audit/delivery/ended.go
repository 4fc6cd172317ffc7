package delivery

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// over is how many of the first events have ended. Events are in the order in which they were stored, so one with
// a date of the future that is before another one that has ended has been kept for longer. An event that has ended
// behind one with a right date says nothing: it is that one whose date is wrong, and it ends with those before it.
//
// The date is the wall clock of the commit, and the end is judged by the earliest time that it may be, if
// every setting of the clock counts: so the whole span passes in between, wherever the clock was meanwhile.
func (e *Engine) over(rows []*model.Resource, behind uint64) (over int) {
	now := e.Clock.Now()
	for i, row := range rows {
		switch {
		case cloud.EventNumber(row.Name) <= behind || e.ended(row):
			over = i + 1
		case !row.Modified.After(now):
			return over
		}
	}
	return over
}

// ended reports whether an event has been kept for long enough, by its own date.
func (e *Engine) ended(event *model.Resource) bool {
	return !event.Modified.Add(cloud.KeptEvents).After(e.Clock.EarliestFor(cloud.KeptEvents))
}

// probes is how many events of a portal are looked at, at most, to find one that has ended behind others whose
// dates are in the future.
const probes = 256

// behindFuture is the number of an event of a portal that has ended and is behind others whose dates are in the
// future, because a clock was wrong when they were stored; 0 if none is found. Such events may fill more than a page,
// and would keep all that come after them until their dates have passed. One that has ended behind an event
// with a right date says nothing, as in [Engine.over].
func (e *Engine) behindFuture(r store.Reader, portal string) (behind uint64, err error) {
	rows, err := store.ListAll(r, cloud.Events, store.Query{Scope: portal, Limit: 1})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	position, err := positionOf(r, portal)
	if err != nil {
		if errors.Is(err, store.ErrUnreadable) { // it is made anew, and found the next time
			err = nil
		}
		return 0, err
	}
	now, first := e.Clock.Now(), cloud.EventNumber(rows[0].Name)
	step := (max(position.Last, first)-first)/probes + 1
	for n := first; n <= position.Last; n += step {
		event, err := r.Get(cloud.Events, portal, cloud.EventName(portal, n))
		switch {
		case fault.Is(err, fault.NotFound), errors.Is(err, store.ErrUnreadable):
		case err != nil:
			return 0, err
		case e.ended(event):
			behind = n
		case !event.Modified.After(now):
			return behind, nil
		}
	}
	return behind, nil
}
