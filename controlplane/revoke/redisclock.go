package revoke

import (
	"errors"
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/redisconn"
)

// A key in Redis expires by the clock of Redis. A Redis whose clock is set ahead drops
// records long before they end. This goes unnoticed while the control plane answers for
// missing records, and they are missing when the control plane is away. So the clock of
// Redis is compared with the monotonic time of this process, which cannot be set. The wall
// clock would not do, because both are set together if they are on one machine.

// errSetAhead ends a session, so that the records in use are written again.
var errSetAhead = errors.New("the clock of redis was set ahead")

// compareTimes notes whether the clock of a server was set ahead since its records were
// written. A clock that is set back drops nothing. If it is then set ahead again, that
// counts as set ahead, because it is unknown which of the two times is right.
func (k *keeper) compareTimes(all []redisconn.Server) {
	now, passed := time.Time{}, time.Since(k.base)
	least, looked := make(map[string]time.Time, len(all)), make(map[string]time.Time, len(all))
	for i := range all {
		if all[i].Time.IsZero() { // this server does not tell its time
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

// kept returns cells with expiries adjusted to a Redis whose clock is ahead. Without this,
// Redis would drop them early or at once. A key that stays longer only takes room: a record
// states its own end, which its reader checks by its own clock.
func (k *keeper) kept(cells []cell) []cell {
	k.mu.Lock()
	lead := k.lead.Milliseconds()
	k.mu.Unlock()
	if lead == 0 || k.r.o.Tracker != nil { // an embedded Redis uses the clock of this process
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
