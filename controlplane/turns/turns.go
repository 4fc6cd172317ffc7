// Package turns bounds how much costly work of one sort is done at a time. The process
// that answers requests also configures proxies: whatever is asked, some of its processors
// stay free.
package turns

import (
	"context"
	"runtime"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// ErrFull refuses what would have to wait for too long: so many wait already. It is for
// the caller to ask again in a moment.
var ErrFull error = fault.New(fault.Unavailable, "too many ask for this at once: ask again")

// Queue lets some work at a time, and some wait for that.
type Queue struct {
	// running holds an entry for each that works, places one for each of those and of the
	// waiting.
	running, places chan struct{}
}

// New returns a queue for work that keeps a processor busy: half of the processors may
// work, and so many may wait.
func New(waiting int) *Queue { return Sized(max(1, runtime.GOMAXPROCS(0)/2), waiting) }

// Sized returns a queue of which so many may work, and so many wait.
func Sized(running, waiting int) *Queue {
	return &Queue{running: make(chan struct{}, running), places: make(chan struct{}, running+waiting)}
}

// Enter waits for its turn; Leave must follow, unless there is an error. That is [ErrFull]
// if too many wait already, and Unavailable if ctx ends.
func (q *Queue) Enter(ctx context.Context) error {
	select {
	case q.places <- struct{}{}:
	default:
		return ErrFull
	}
	select {
	case q.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-q.places
		return fault.Wrap(fault.Unavailable, ctx.Err(), "too many ask for this at once, and nobody waits for it any more")
	}
}

// TryEnter enters if nobody is in the way; Leave must follow if it has.
func (q *Queue) TryEnter() bool {
	select {
	case q.places <- struct{}{}:
	default:
		return false
	}
	select {
	case q.running <- struct{}{}:
		return true
	default:
		<-q.places
		return false
	}
}

// Leave ends a turn.
func (q *Queue) Leave() {
	<-q.running
	<-q.places
}
