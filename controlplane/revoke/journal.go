package revoke

import (
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Bounds of the journal and of what one link is sent at its start.
const (
	maxJournal = 1 << 16
	maxReplay  = 1 << 14
	// batch is the number of invalidations in one frame; ids are at most a few
	// dozen bytes, so a frame stays far below its limit.
	batch = 2048
)

// entry is one live revocation. high is the newest revision that had been
// published before it: a filter that knows of high may not know of this one,
// because commits may be published in another order than they were made.
type entry struct {
	inv     contract.Invalidation
	expires int64
	high    uint64
}

func (e *entry) live(now time.Time) bool { return e.expires == 0 || now.UnixMilli() < e.expires }

// journal holds the live revocations in the order of their publication. Its
// owner serialises access.
type journal struct {
	entries []entry
	// newest revision that was published; forgotten is the newest that was
	// dropped before its time.
	newest, forgotten uint64
}

func (j *journal) add(now time.Time, entries []entry) {
	for _, e := range entries {
		e.high = j.newest
		j.entries = append(j.entries, e)
	}
	for _, e := range entries {
		j.newest = max(j.newest, e.inv.Revision)
	}
	if len(j.entries) <= maxJournal {
		return
	}
	keep := j.entries[:0]
	for _, e := range j.entries {
		if e.live(now) {
			keep = append(keep, e)
		}
	}
	drop := len(keep) - maxJournal*3/4
	for i := 0; i < drop; i++ {
		j.forgotten = max(j.forgotten, keep[i].inv.Revision)
	}
	clear(j.entries[len(keep):])
	j.entries = append([]entry(nil), keep[max(drop, 0):]...)
}

// since returns what a filter misses that has applied revocations up to
// revision, and the floor if it cannot be told one by one.
func (j *journal) since(now time.Time, revision uint64) (items []contract.Invalidation, floor uint64) {
	if revision < j.forgotten {
		floor = j.forgotten
	}
	for i := range j.entries {
		e := &j.entries[i]
		if e.live(now) && (e.inv.Revision > revision || e.high >= revision) && e.inv.Revision > floor {
			items = append(items, e.inv)
		}
	}
	if len(items) > maxReplay {
		return nil, j.newest
	}
	return items, floor
}
