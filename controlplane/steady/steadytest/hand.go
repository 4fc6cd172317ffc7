// Package steadytest has a wall clock that a test sets, for processes that measure by
// package steady.
package steadytest

import (
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/steady"
)

// Clock is the clock of a process, as [steady.Clock] is.
type Clock interface {
	Earliest() time.Time
	Latest() time.Time
	Note(at time.Time)
}

// Hand is the wall clock of a host, which is set by hand. The clock of the test itself is
// right. Its methods may be called by several goroutines.
type Hand struct {
	// AtItsWord, a defect, has processes take the wall clock at its word.
	AtItsWord bool

	mu      sync.Mutex
	off     time.Duration
	process Clock
}

// Set says how far the wall clock is ahead of the right time.
func (h *Hand) Set(ahead time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.off = ahead
}

// Now is the wall clock.
func (h *Hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.off)
}

// Begin returns the clock of a process that begins.
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

// Past is up to when rows of a store have ended, by the clock of the process that began
// last. There must have been one.
func (h *Hand) Past() time.Time {
	h.mu.Lock()
	process := h.process
	h.mu.Unlock()
	return process.Earliest()
}

// word is a wall clock that is taken at its word.
type word struct{ h *Hand }

// Earliest implements [Clock].
func (w word) Earliest() time.Time { return w.h.Now() }

// Latest implements [Clock].
func (w word) Latest() time.Time { return w.h.Now() }

// Note implements [Clock].
func (word) Note(time.Time) {}
