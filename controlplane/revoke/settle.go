package revoke

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Settle is for a client that wants to revoke something that is already gone, or that has
// nothing to change. It returns once every write that had begun before is published, unless it
// turns out to concern other scopes, and no revocation in some scopes, or in any if none is
// given, is unconfirmed by a filter that accepts their credentials. What was revoked in other
// scopes is the concern of others. If this takes too long, it fails with a fault of code Unavailable that says what it waited for. The caller's
// own write must be over.
func (r *Revoker) Settle(ctx context.Context, scopes ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.mu.Lock()
	begun := make([]*pending, 0, len(r.writes))
	for w := range r.writes {
		begun = append(begun, w)
	}
	r.mu.Unlock()
	about := matterIn(scopes)
	for _, w := range begun {
		if err := r.over(ctx, w, &about); err != nil {
			return err
		}
	}
	latest, rounds := r.revocations(&about)
	for _, d := range rounds {
		if err := r.applied(ctx, d, &about); err != nil {
			return err
		}
	}
	if len(latest) == 0 {
		return nil
	}
	if err := r.firstLease(ctx); err != nil {
		return err
	}
	for i := range latest {
		if err := r.reached(ctx, latest[i].at, &latest[i].about); err != nil {
			return err
		}
	}
	return nil
}

// over returns when a write has ended that may have done what a caller looks for. Until it is
// committed, nobody knows what it concerns. What it waits for after that, for example for
// Redis, is no business of those whom it does not concern.
func (r *Revoker) over(ctx context.Context, w *pending, about *matter) error {
	known := w.known
	for {
		select {
		case <-known:
			if !w.within.meets(about) {
				return nil
			}
			known = nil
		case <-w.done:
			return nil
		case <-ctx.Done():
			return notYet("another write that may concern it is not yet published")
		case <-r.ctx.Done():
			return notYet(stopping)
		}
	}
}

// revocation is the latest one that is about a matter.
type revocation struct {
	about matter
	at    contract.Position
}

// revocations returns the latest revocation in each scope that a matter is about, if there is
// one, and the rounds of revocations that may not be effective yet at filters that it concerns.
// Scopes are asked for one by one: what one has revoked is not asked of the filters of another.
func (r *Revoker) revocations(about *matter) (list []revocation, rounds []*round) {
	each := []matter{*about}
	if !about.all {
		each = each[:0]
		for _, scope := range about.scopes {
			each = append(each, matterIn([]string{scope}))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, d := range r.rounds {
		if d.revokes && d.concerns(about, now) {
			rounds = append(rounds, d)
		}
	}
	for i := range each {
		if at := r.latest.of(&each[i]); at > 0 {
			list = append(list, revocation{each[i], at})
		}
	}
	return list, rounds
}

// latest holds the positions of the latest revocations: in each scope, or of what it consists
// of, and of those that may be in any scope. It does not follow from what is unconfirmed: what
// was confirmed may have to be confirmed anew.
type latest struct {
	in  map[string]contract.Position
	all contract.Position
}

// maxLatest bounds the scopes in latest.
const maxLatest = 1 << 16

// note notes a revocation at a position, which is the newest one.
func (l *latest) note(m *matter, at contract.Position) {
	if m.all || len(l.in) >= maxLatest { // too many are remembered as one of all
		l.in, l.all = map[string]contract.Position{}, at
		return
	}
	for _, scope := range slices.Concat(m.scopes, m.groups) {
		l.in[scope] = at
	}
}

// of returns the position of the latest that a matter is about.
func (l *latest) of(m *matter) contract.Position {
	at := l.all
	if m.all {
		for _, one := range l.in {
			at = max(at, one)
		}
	}
	for _, scope := range slices.Concat(m.scopes, m.groups) {
		at = max(at, l.in[scope])
	}
	return at
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
