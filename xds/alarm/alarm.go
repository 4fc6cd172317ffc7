package alarm

import (
	"context"
	"sync"
	"time"
)

// Slice is how late an alarm may be after a sleep or a change of the clock.
const Slice = time.Minute

// Alarm rings at a moment of the wall clock. It belongs to one goroutine, which receives from
// C and then calls Due.
type Alarm struct {
	now   func() time.Time
	at    time.Time
	timer *time.Timer
}

// New returns an alarm that is not set. now is the wall clock, as in [Wait] and [AfterFunc];
// nil means that of the host.
func New(now func() time.Time) *Alarm { return &Alarm{now: orHost(now)} }

func orHost(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// Set makes the alarm ring at a moment, in place of the previous one. The zero time stops the
// alarm; a user that no longer needs it must stop it.
func (a *Alarm) Set(at time.Time) {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.at = at; !at.IsZero() {
		a.timer = time.NewTimer(slice(at, a.now()))
	}
}

// C returns a channel that is ready when it is time to call Due. Each Set makes another
// channel. It is nil, and never ready, while the alarm is not set.
func (a *Alarm) C() <-chan time.Time {
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}

// Due reports whether the moment has come. If not, C will be ready again.
func (a *Alarm) Due() bool {
	if a.at.IsZero() {
		return false
	}
	pause := slice(a.at, a.now())
	if pause <= 0 {
		return true
	}
	a.timer.Reset(pause)
	return false
}

// Wait returns at a moment of the wall clock, or earlier with the error of ctx.
func Wait(ctx context.Context, now func() time.Time, at time.Time) error {
	a := New(now)
	a.Set(at)
	defer a.Set(time.Time{})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.C():
			if a.Due() {
				return nil
			}
		}
	}
}

// Call is a single call of a function at a moment of the wall clock.
type Call struct {
	mu    sync.Mutex
	timer *time.Timer // nil once stopped
}

// AfterFunc calls f at a moment, on its own goroutine, unless the call is stopped before.
func AfterFunc(now func() time.Time, at time.Time, f func()) *Call {
	now = orHost(now)
	c := &Call{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(slice(at, now()), func() {
		if c.due(at, now()) {
			f()
		}
	})
	return c
}

// due reports whether to make the call. If not, it restarts the timer.
func (c *Call) due(at, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		return false
	}
	pause := slice(at, now)
	if pause > 0 {
		c.timer.Reset(pause)
	}
	return pause <= 0
}

// Stop prevents a call that has not begun.
func (c *Call) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// slice returns how long to trust a timer for a moment. It ignores the monotonic clock, whose
// differences count only the time awake.
func slice(at, now time.Time) time.Duration {
	return min(at.Round(0).Sub(now.Round(0)), Slice)
}
