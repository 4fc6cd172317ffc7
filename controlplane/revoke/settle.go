package revoke

import (
	"context"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Settle is for a client that wants to revoke something that is already gone, or that has
// nothing to change. It returns once every write that had begun before is published and no
// revocation is unconfirmed by a filter that accepts credentials of some scopes, or of any if
// none is given. If this takes too long, it fails with a fault of code Unavailable that says
// what it waited for. The caller's own write must be over.
func (r *Revoker) Settle(ctx context.Context, scopes ...string) error {
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
	about := matterIn(scopes)
	at, rounds := r.revocations(&about)
	if at == 0 {
		return nil
	}
	for _, d := range rounds {
		if err := r.applied(ctx, d, &about); err != nil {
			return err
		}
	}
	if err := r.firstLease(ctx); err != nil {
		return err
	}
	return r.reached(ctx, at, &about)
}

// revocations returns the position of the latest revocation, 0 if there is none, and the
// rounds of revocations that may not be effective yet at filters that a matter concerns.
func (r *Revoker) revocations(about *matter) (at contract.Position, rounds []*round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, d := range r.rounds {
		if d.revokes && d.concerns(about, now) {
			rounds = append(rounds, d)
		}
	}
	return r.revokedAt, rounds
}

// calls counts callers and the goroutines that they have left behind, so that Close can
// wait for them.
type calls struct {
	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
	// stop is closed when the goroutines that were left behind must end.
	stop chan struct{}
}

// begin reports whether another caller is admitted. An admitted caller must call end.
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

// after runs fn once ch is closed. Only an admitted caller may call it.
func (c *calls) after(ch <-chan struct{}, fn func()) {
	c.running.Go(func() {
		select {
		case <-ch:
			fn()
		case <-c.stop:
		}
	})
}

// wait refuses new callers. It returns when the present callers have ended or ctx ends.
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
