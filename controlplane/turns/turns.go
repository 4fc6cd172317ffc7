// Package turns bounds how much costly work of one sort runs at the same time. The process
// that answers requests also configures proxies, so some of its processors must stay free,
// whatever clients request.
package turns

import (
	"context"
	"runtime"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// ErrFull refuses work because too many callers are waiting already. The caller can try again
// in a moment.
var ErrFull error = fault.New(fault.Unavailable, "too many ask for this at once: ask again").Again(time.Second)

// Queue lets a limited number of callers work, and a limited number wait.
type Queue struct {
	// running holds an entry for each working caller, places one for each working or waiting
	// caller.
	running, places chan struct{}
}

// New returns a queue for work that keeps a processor busy. As many callers may work as half
// of the processors, and waiting others may wait.
func New(waiting int) *Queue { return Sized(max(1, runtime.GOMAXPROCS(0)/2), waiting) }

// Sized returns a queue with limits for working and waiting callers.
func Sized(running, waiting int) *Queue {
	return &Queue{running: make(chan struct{}, running), places: make(chan struct{}, running+waiting)}
}

// Enter waits for a turn. If it returns no error, Leave must follow. The error is [ErrFull]
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
		return fault.Wrap(fault.Unavailable, ctx.Err(), "too many ask for this at once, and nobody waits for it any more").Again(time.Second)
	}
}

// TryEnter enters if that is possible without waiting. If it returns true, Leave must follow.
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
