// Package steadytest has a wall clock that a test sets, for processes that use package
// steady.
package steadytest

import (
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/steady"
)

// Clock is the clock of a process, like [steady.Clock].
type Clock interface {
	Earliest() time.Time
	Latest() time.Time
	Note(at time.Time)
}

// Hand is the wall clock of a host, set by hand. The clock of the test itself is right. Its
// methods may be called by several goroutines.
type Hand struct {
	// AtItsWord simulates a defect: processes believe the wall clock as it is.
	AtItsWord bool

	mu      sync.Mutex
	off     time.Duration
	process Clock
}

// Set sets how far the wall clock is ahead of the right time.
func (h *Hand) Set(ahead time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.off = ahead
}

// Now returns the wall clock.
func (h *Hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.off)
}

// Begin returns the clock of a new process.
func (h *Hand) Begin() Clock {
	base := time.Now()
	var next Clock = word{h}
	if !h.AtItsWord {
		next = steady.New(func() (time.Time, time.Duration) { return h.Now(), time.Since(base) })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.process = next
	return next
}

// Past returns the time before which rows of a store have ended, by the clock of the newest
// process. There must be one.
func (h *Hand) Past() time.Time {
	h.mu.Lock()
	process := h.process
	h.mu.Unlock()
	return process.Earliest()
}

// word is a wall clock that is believed as it is.
type word struct{ h *Hand }

// Earliest implements [Clock].
func (w word) Earliest() time.Time { return w.h.Now() }

// Latest implements [Clock].
func (w word) Latest() time.Time { return w.h.Now() }

// Note implements [Clock].
func (word) Note(time.Time) {}
