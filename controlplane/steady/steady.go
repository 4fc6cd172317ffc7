// Package steady says within which bounds a wall clock can be believed if it may be set by
// hand, by a time server, or by moving a virtual machine.
//
// A wall clock that jumps ahead and comes back could end things too early: a removed row
// does not come back with the clock. So code that gives something up for good when a time
// has passed uses [Clock.Earliest]. Code that dates something that must outlive a span from
// now on uses [Clock.Latest]. Then, by the monotonic clock of the process, at least the
// whole span passes before the end, no matter where the wall clock was meanwhile. What lives
// for longer than a [Window] is judged by [Clock.EarliestFor] and dated by
// [Clock.LatestFor].
//
// The package does not know which of two wall clock times is right, and need not know. It
// cannot detect a clock that was wrong all the time.
package steady

import (
	"sync"
	"time"
)

const (
	// Window is the least time for which a setting of the wall clock counts after the clock
	// has left it. What lives longer is judged by [Clock.EarliestFor].
	Window = 25 * time.Hour
	// Apart is how far the wall clock may move before a warning.
	Apart = 10 * time.Minute

	slots = int64(Window/time.Hour) + 1
)

// Clock is a wall clock that is compared with the time that passes in this process. Its
// methods may be called by several goroutines.
type Clock struct {
	read func() (wall time.Time, elapsed time.Duration)

	mu sync.Mutex
	// hours are the bounds of the last hours of elapsed time, indexed by their number, and
	// ever the bounds of all of it.
	hours [slots]hour
	ever  hour
}

// hour is the distance between the wall clock and the elapsed time within one hour, at least
// and at most, in nanoseconds of Unix time.
type hour struct {
	number      int64
	least, most int64
	set         bool
}

// New returns a clock. read returns the wall clock and the time since some fixed moment,
// which never goes back, in one reading. nil reads the clocks of the host. Those do not
// count the sleep of a host, so a sleep looks as if the wall clock was set.
func New(read func() (wall time.Time, elapsed time.Duration)) *Clock {
	if read == nil {
		base := time.Now()
		read = func() (time.Time, time.Duration) {
			now := time.Now()
			return now, now.Sub(base)
		}
	}
	c := &Clock{read: read}
	c.Now()
	return c
}

// Now returns the wall clock as it is.
func (c *Clock) Now() time.Time {
	wall, _, _ := c.bounds(nil, 0)
	return wall
}

// Elapsed returns the time since some fixed moment, which no setting of the wall clock changes.
func (c *Clock) Elapsed() time.Duration {
	_, elapsed := c.read()
	return elapsed
}

// Earliest returns the earliest possible time. For each moment of the last [Window],
// consider what the wall clock would say now if it had not been set since: the result is the
// smallest of these.
func (c *Clock) Earliest() time.Time {
	return c.EarliestFor(0)
}

// Latest returns the latest possible time.
func (c *Clock) Latest() time.Time {
	return c.LatestFor(0)
}

// EarliestFor is like Earliest, for the end of something with a given life. If the life is
// longer than [Window], every setting since the clock was made counts, because the life may
// have been dated by a setting that the clock left more than a Window ago.
func (c *Clock) EarliestFor(life time.Duration) time.Time {
	_, earliest, _ := c.bounds(nil, life)
	return earliest
}

// LatestFor is like Latest, for the beginning of a life. See EarliestFor.
func (c *Clock) LatestFor(life time.Duration) time.Time {
	_, _, latest := c.bounds(nil, life)
	return latest
}

// Note records what another clock says now, for example that of a former process that has
// just ended, as far as is known. It counts like a setting of the wall clock.
func (c *Clock) Note(at time.Time) { c.bounds(&at, 0) }

// Moved returns how far the wall clock was set within the last [Window]. It is positive if
// the clock is ahead of where it would be now, negative if it is behind, and 0 if it was not
// set.
func (c *Clock) Moved() time.Duration {
	wall, earliest, latest := c.bounds(nil, 0)
	if ahead, behind := wall.Sub(earliest), latest.Sub(wall); behind > ahead {
		return -behind
	} else if ahead > 0 {
		return ahead
	}
	return 0
}

// bounds reads the clocks, and returns the bounds for a life. other is what another clock
// says, or nil.
func (c *Clock) bounds(other *time.Time, life time.Duration) (wall, earliest, latest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, elapsed := c.read()
	now := int64(elapsed / time.Hour)
	c.note(now, wall, elapsed)
	if other != nil {
		c.note(now, *other, elapsed)
	}
	if life > Window {
		return wall, time.Unix(0, c.ever.least).Add(elapsed), time.Unix(0, c.ever.most).Add(elapsed)
	}
	least, most := c.hours[now%slots].least, c.hours[now%slots].most
	for i := range c.hours {
		if h := &c.hours[i]; h.set && h.number > now-slots {
			least, most = min(least, h.least), max(most, h.most)
		}
	}
	return wall, time.Unix(0, least).Add(elapsed), time.Unix(0, most).Add(elapsed)
}

// note adds what a clock says to the bounds of an hour, and of all time. The caller holds
// mu.
func (c *Clock) note(number int64, at time.Time, elapsed time.Duration) {
	from := at.Add(-elapsed).UnixNano()
	c.hours[number%slots].take(number, from)
	c.ever.take(0, from)
}

// take widens the bounds of an hour. Another number starts a new hour.
func (h *hour) take(number, from int64) {
	if !h.set || h.number != number {
		*h = hour{number: number, least: from, most: from, set: true}
		return
	}
	h.least, h.most = min(h.least, from), max(h.most, from)
}
