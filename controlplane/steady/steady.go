// Package steady says within what bounds a wall clock can be believed that somebody may
// set, by hand, by a time server or by moving a virtual machine.
//
// A wall clock that jumps ahead and comes back would else end what has not ended: a row
// that is removed does not come back with the clock. So whatever is given up for good
// when a moment has passed is judged by [Clock.Earliest], and whatever must outlive a
// span from now on is dated by [Clock.Latest]. Between a date and its end then lies at
// least the span that it was given, by the monotonic clock of the process, wherever the
// wall clock was meanwhile. What lives for longer than a [Window] is judged by
// [Clock.EarliestFor] and dated by [Clock.LatestFor].
//
// Nothing here knows which of two wall clocks is right, and nothing has to. What the
// package cannot see is a clock that was wrong all the time.
package steady

import (
	"sync"
	"time"
)

const (
	// Window is for how long a setting of the wall clock counts after it was left, at
	// least. What lives longer is judged by [Clock.EarliestFor].
	Window = 25 * time.Hour
	// Apart is how far the wall clock may have moved until somebody is told.
	Apart = 10 * time.Minute

	slots = int64(Window/time.Hour) + 1
)

// Clock is a wall clock, compared with the time that passes in this process. Its
// methods may be called by several goroutines.
type Clock struct {
	read func() (wall time.Time, elapsed time.Duration)

	mu sync.Mutex
	// hours are the bounds of the last hours of elapsed time, each at its number, and
	// ever those of all of it.
	hours [slots]hour
	ever  hour
}

// hour is how far the wall clock was from the elapsed time within one hour, in
// nanoseconds from the beginning of Unix time: at least and at most.
type hour struct {
	number      int64
	least, most int64
	set         bool
}

// New returns a clock. read takes the wall clock and the time that has passed since some
// moment, which never goes back, in one reading; nil reads the clocks of the host. Those
// do not count the sleep of a host, which then looks as if the wall clock was set.
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

// Now is the wall clock as it is.
func (c *Clock) Now() time.Time {
	wall, _, _ := c.bounds(nil, 0)
	return wall
}

// Earliest is the earliest that it can be: the smallest of what the wall clock would say
// now, had it only run since any moment of the last [Window].
func (c *Clock) Earliest() time.Time {
	return c.EarliestFor(0)
}

// Latest is the latest that it can be.
func (c *Clock) Latest() time.Time {
	return c.LatestFor(0)
}

// EarliestFor is the earliest that it can be, for the end of what was given a life. For a
// life longer than [Window] every setting since the clock was made counts: one that was
// left more than a Window ago may still be what the life was dated by.
func (c *Clock) EarliestFor(life time.Duration) time.Time {
	_, earliest, _ := c.bounds(nil, life)
	return earliest
}

// LatestFor is the latest that it can be, for the beginning of a life; otherwise as
// EarliestFor.
func (c *Clock) LatestFor(life time.Duration) time.Time {
	_, _, latest := c.bounds(nil, life)
	return latest
}

// Note says what another clock tells now, for instance that of a former process which
// has ended just now, as far as is known. It counts like a setting of the wall clock.
func (c *Clock) Note(at time.Time) { c.bounds(&at, 0) }

// Moved is how far the wall clock was set within the last [Window]: ahead of where it
// would be now if that is positive, behind if it is negative, 0 if it has only run.
func (c *Clock) Moved() time.Duration {
	wall, earliest, latest := c.bounds(nil, 0)
	if ahead, behind := wall.Sub(earliest), latest.Sub(wall); behind > ahead {
		return -behind
	} else if ahead > 0 {
		return ahead
	}
	return 0
}

// bounds reads the clocks, and what somebody else says beside them, for a life.
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

// note takes what a clock says into the bounds of an hour, and of all time. mu is held.
func (c *Clock) note(number int64, at time.Time, elapsed time.Duration) {
	from := at.Add(-elapsed).UnixNano()
	c.hours[number%slots].take(number, from)
	c.ever.take(0, from)
}

// take widens the bounds of an hour, which begins anew under another number.
func (h *hour) take(number, from int64) {
	if !h.set || h.number != number {
		*h = hour{number: number, least: from, most: from, set: true}
		return
	}
	h.least, h.most = min(h.least, from), max(h.most, from)
}
