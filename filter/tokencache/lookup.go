package tokencache

import (
	"context"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxAttempts bounds how often a look-up is repeated because something overtook
// it.
const maxAttempts = 4

// outcome is what a round came to.
type outcome struct {
	answer contract.Answer
	packed []byte
	// pluginOnly says that Unavailable holds for the asking plugin only.
	pluginOnly bool
}

// pauses are how a look-up waits for what others are finding out.
type pauses interface {
	// link returns the link, or nil if there is none. It waits for one that may be there at once.
	link(ctx context.Context) *session
	// pause waits until a channel is closed. It returns false if the look-up may not go on.
	pause(ctx context.Context, until <-chan struct{}) bool
}

var unavailable = outcome{answer: contract.Unavailable}

// lookUp goes through the levels by the table of states. Every read it uses
// begins after it was called. What ends without an answer while the filter was told
// to believe something else begins again: Redis may well answer now, and a control
// plane that has just started may not be able to yet.
func (c *Cache) lookUp(ctx context.Context, hash contract.Hash, plugin string, by pauses) outcome {
	for attempt := 1; ; attempt++ {
		last, linkedBefore := attempt == maxAttempts, c.session.Load() != nil
		began, cfg := c.begin()
		if cfg.static() {
			return c.lookUpStatic(ctx, cfg, hash, by)
		}
		if out, ok := c.fromL1(&hash); ok {
			return out
		}
		r, l2 := c.readL2(ctx, cfg, began, hash, by)
		if l2 == l2Found {
			if out, ok := c.accept(cfg, began, &hash, r, r.Until); ok {
				return out
			}
		}
		if !last && c.overtaken(began, l2Absent) { // a publication alone is no reason not to ask
			continue
		}
		out := c.introspect(ctx, cfg, &hash, plugin, l2, by)
		// Redis may have been left alone because there was a link.
		lost := linkedBefore && l2 == l2Failed && c.session.Load() == nil
		if last || out.answer != contract.Unavailable || !lost && !c.overtaken(began, l2) {
			return out
		}
	}
}

// overtaken says whether Redis might tell more now than it told a look-up that began
// at a standing: the filter believes something else, or what forbade the use may
// have been no more than a publication that came between two reads.
func (c *Cache) overtaken(began *standing, l2 l2Outcome) bool {
	now, _ := c.begin()
	return now.generation != began.generation || !sameTrust(now.trust, began.trust) ||
		(l2 == l2Untrusted && now.applied != began.applied)
}

// introspect asks the control plane; l2 is what Redis had said.
func (c *Cache) introspect(ctx context.Context, cfg *config, hash *contract.Hash, plugin string, l2 l2Outcome, by pauses) outcome {
	for range maxAttempts {
		s := by.link(ctx)
		if s == nil {
			return c.withoutLink(cfg, hash, l2)
		}
		c.counters.introspections.Add(1)
		// A generation that the table has left already keeps the answer out.
		began, asked := c.standing.Load(), c.clock.Now()
		res, err := s.ask(ctx, *hash, plugin)
		if err != nil {
			c.counters.introspectionErrors.Add(1)
			if c.session.Load() == nil {
				return c.withoutLink(cfg, hash, l2)
			}
			return unavailable
		}
		switch res.Answer {
		case contract.Found:
			if out, ok := c.accept(cfg, began, hash, res.Record, untilOf(res.Record, asked)); ok {
				return out
			}
			// An invalidation overtook the answer, or the memory began anew: ask again.
		case contract.Unknown, contract.Expired, contract.Revoked:
			return outcome{answer: c.table.remember(began.generation, hash, res.Answer, res.Revision, c.clock.Now().Mono+cfg.negativeTTL)}
		case contract.Miss, contract.Unavailable:
			return outcome{answer: contract.Unavailable, pluginOnly: true}
		}
	}
	return unavailable
}

// lookUpStatic asks Redis alone: without a control plane it is the authority.
func (c *Cache) lookUpStatic(ctx context.Context, cfg *config, hash contract.Hash, by pauses) outcome {
	r, l2 := c.readL2(ctx, cfg, c.standing.Load(), hash, by)
	switch {
	case l2 == l2Absent:
		return outcome{answer: contract.Unknown}
	case l2 == l2Revoked:
		return outcome{answer: contract.Revoked}
	case l2 != l2Found:
		return unavailable
	case over(r.Expires, c.clock.Now()):
		return outcome{answer: contract.Expired}
	}
	return outcome{answer: contract.Found, packed: r.PackFor(cfg.scopes(nil), nil)}
}

// untilOf is when the answer of an introspection is too old for L1. It counts
// from the question, by this host's clock, in case that the clocks differ.
func untilOf(r *contract.Record, asked Instant) int64 {
	own := asked.millis() + contract.RecordLife.Milliseconds()
	if r.Until == 0 {
		return own
	}
	return min(own, r.Until)
}

// accept uses a record if its control plane is one of those that the gateway consists of
// and the floors allow it, and leaves it in L1 for those who come later, until it is too
// old. The look-up began at a standing: what the gateway consists of since has another
// generation, so nobody has to look again at a hit. A record that has expired answers
// Expired, and is remembered as such.
func (c *Cache) accept(cfg *config, began *standing, hash *contract.Hash, r *contract.Record, until int64) (outcome, bool) {
	if !began.accepts(r) {
		return outcome{}, false
	}
	generation, now := began.generation, c.clock.Now()
	expired := over(r.Expires, now)
	packed := r.PackFor(began.scopes, nil)
	if !c.table.admit(generation, hash, r, until, packed, !expired && !over(until, now)) {
		return outcome{}, false
	}
	if expired {
		c.table.remember(generation, hash, contract.Expired, r.Revision, now.Mono+cfg.negativeTTL)
		return outcome{answer: contract.Expired, packed: packed}, true
	}
	return outcome{answer: contract.Found, packed: packed}, true
}

// fromL1 asks L1 again under a live lease: a round before this one, or another
// flight, may have filled it since the request missed.
func (c *Cache) fromL1(hash *contract.Hash) (outcome, bool) {
	now := c.clock.Now()
	if !c.leased(now) {
		return outcome{}, false
	}
	return c.readL1(hash, now)
}

func (c *Cache) readL1(hash *contract.Hash, now Instant) (outcome, bool) {
	buf := make([]byte, contract.MaxPacked)
	n, answer := c.table.peek(hash, buf, now)
	if answer == contract.Miss {
		return outcome{}, false
	}
	return outcome{answer: answer, packed: buf[:n:n]}, true
}

// withoutLink is the end of a look-up that could not be introspected: grace, if
// it is configured, not over, and Redis could not be asked either. A Redis that
// answered, be it without a usable record, leaves no room for grace.
func (c *Cache) withoutLink(cfg *config, hash *contract.Hash, l2 l2Outcome) outcome {
	now := c.clock.Now()
	if l2 != l2Failed || !c.inGrace(cfg, now) {
		return unavailable
	}
	out, ok := c.readL1(hash, now)
	if !ok {
		return unavailable
	}
	c.counters.staleServed.Add(1)
	return out
}
