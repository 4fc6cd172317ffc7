package tokencache

import "time"

// Instant is one reading of both clocks. Both values must come from one reading: if the
// goroutine were delayed between two readings, the difference would look like a host that
// slept.
type Instant struct {
	// Wall is the time of day in nanoseconds of Unix time. It may step, and it includes the
	// sleep of a host.
	Wall int64
	// Mono is the time since a fixed moment. It never steps back, and it stands still while
	// a host sleeps.
	Mono time.Duration
}

// apart returns how far the wall clock is ahead of the monotonic one.
func (i Instant) apart() time.Duration { return time.Duration(i.Wall) - i.Mono }

// millis returns the time of day in the unit of records.
func (i Instant) millis() int64 { return i.Wall / int64(time.Millisecond) }

// Clock tells the time.
type Clock interface {
	// Now reads both clocks at once.
	Now() Instant
}

// systemClock counts from a base that carries Go's monotonic reading.
type systemClock struct{ base time.Time }

// Now implements Clock.
func (c systemClock) Now() Instant {
	now := time.Now()
	return Instant{Wall: now.UnixNano(), Mono: now.Sub(c.base)}
}
