package revoke

import (
	"errors"
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/redisconn"
)

// A key in Redis ends at a moment of Redis's own clock. One that is set ahead drops
// records long before they end, and nobody misses them while the control plane answers
// for what is not there: they are missed when it is away. So that clock is compared with
// the time that passes in this process, which nobody sets, and not with the wall clock,
// which is set together with it where both are on one machine.

// errSetAhead ends a session, so that what is in use is written again.
var errSetAhead = errors.New("the clock of redis was set ahead")

// compareTimes notes whether the clock of a server was set ahead since the records
// were written that it holds. One that is set back drops nothing. That it comes again
// counts: nobody knows which of the two times is right.
func (k *keeper) compareTimes(all []redisconn.Server) {
	now, passed := time.Time{}, time.Since(k.base)
	least, looked := make(map[string]time.Time, len(all)), make(map[string]time.Time, len(all))
	for i := range all {
		if all[i].Time.IsZero() { // it does not tell
			continue
		}
		now = later(now, all[i].Time)
		began, id := all[i].Time.Add(-passed), all[i].Identity()
		looked[id] = began
		if was, known := k.began[id]; known && was.Before(began) {
			if began.Sub(was) > unmeasured {
				k.setAhead = true
			}
			began = was
		}
		least[id] = began
	}
	k.began, k.looked = least, looked
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lead = 0
	if !now.IsZero() {
		k.lead = max(0, now.Sub(k.r.o.Clock.Earliest()))
	}
}

// kept are cells as they are written to a Redis whose clock is ahead, which would else
// drop them early or at once. What a record is good for it says itself, by the clock of
// whoever reads it: a key that stays longer only takes room.
func (k *keeper) kept(cells []cell) []cell {
	k.mu.Lock()
	lead := k.lead.Milliseconds()
	k.mu.Unlock()
	if lead == 0 || k.r.o.Tracker != nil { // that goes by the clock of this process
		return cells
	}
	out := slices.Clone(cells)
	for i := range out {
		if out[i].expires > 0 {
			out[i].expires += lead
		}
	}
	return out
}
