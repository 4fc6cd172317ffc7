package revoke

import (
	"context"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
)

// Settle is for whoever would revoke something and finds that it is gone already,
// or that there is nothing to change: it returns once every write that had begun
// before is published and no revocation is unconfirmed. A fault of code
// Unavailable names what that waits for. The write of the caller itself must be
// over.
func (r *Revoker) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.mu.Lock()
	begun := make([]*pending, 0, len(r.writes))
	for w := range r.writes {
		begun = append(begun, w)
	}
	r.mu.Unlock()
	for _, w := range begun {
		select {
		case <-w.done:
		case <-ctx.Done():
			return notYet("another write that may concern it is not yet published")
		case <-r.ctx.Done():
			return notYet(stopping)
		}
	}
	at, rounds := r.revocations()
	if at == 0 {
		return nil
	}
	for _, d := range rounds {
		if err := r.applied(ctx, d); err != nil {
			return err
		}
	}
	if err := r.firstLease(ctx); err != nil {
		return err
	}
	return r.reached(ctx, at)
}

// revocations returns the position of the latest revocation, 0 if there is none,
// and the rounds of those that may not be effective yet.
func (r *Revoker) revocations() (at contract.Position, rounds []*round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.rounds {
		if d.revokes {
			rounds = append(rounds, d)
		}
	}
	return r.revokedAt, rounds
}

// calls counts callers, and what they have left behind, so that Close can wait.
type calls struct {
	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
	// stop is closed when what was left behind must end.
	stop chan struct{}
}

// begin reports whether there may be another caller, who must end.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	c.running.Add(1)
	return true
}

func (c *calls) end() { c.running.Done() }

// after runs fn once ch is closed. It is called by a caller.
func (c *calls) after(ch <-chan struct{}, fn func()) {
	c.running.Go(func() {
		select {
		case <-ch:
			fn()
		case <-c.stop:
		}
	})
}

// wait refuses new callers and returns when those that are there have ended, or
// ctx has.
func (c *calls) wait(ctx context.Context) {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); c.running.Wait() }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
