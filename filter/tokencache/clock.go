package tokencache

import (
	"sync/atomic"
	"time"
)

// Clock tells the time. The two readings are independent: leases and deadlines
// use Mono only, expiry uses Wall only.
type Clock interface {
	// Wall is the time of day, which may step.
	Wall() time.Time
	// Mono is the time since a fixed moment; it never steps back.
	Mono() time.Duration
}

// systemClock counts from a base that carries Go's monotonic reading.
type systemClock struct{ base time.Time }

// Wall implements Clock.
func (systemClock) Wall() time.Time { return time.Now() }

// Mono implements Clock.
func (c systemClock) Mono() time.Duration { return time.Since(c.base) }

// wallGuard is how far the estimated wall clock may be wrong without changing
// an answer. The estimate is renewed with every lease, so only a step of the
// wall clock by more than the guard within one lease could be seen late, and
// then at most until that lease ends.
const wallGuard = 10 * time.Second

// wallOffset is wall clock minus monotonic clock in ms. It spares the hot path
// a reading of the wall clock (about 50 ns) for every token that does not expire
// within wallGuard; near the boundary the wall clock itself decides, so a token
// is refused from the very millisecond of Record.Expires on.
type wallOffset struct{ ms atomic.Int64 }

func (w *wallOffset) sync(c Clock) {
	w.ms.Store(c.Wall().UnixMilli() - c.Mono().Milliseconds())
}

// expired applies Record.Expires at the monotonic time mono.
func (t *table) expired(expires int64, mono time.Duration) bool {
	if expires == 0 {
		return false
	}
	if expires-(mono.Milliseconds()+t.wall.ms.Load()) > wallGuard.Milliseconds() {
		return false
	}
	return t.clock.Wall().UnixMilli() >= expires
}
