package tokencache

import (
	"context"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxAttempts bounds how often a look-up is repeated because an invalidation
// overtook its answer.
const maxAttempts = 4

// outcome is what a round came to.
type outcome struct {
	answer contract.Answer
	packed []byte
	// pluginOnly says that Unavailable holds for the asking plugin only.
	pluginOnly bool
}

var unavailable = outcome{answer: contract.Unavailable}

// lookUp goes through the levels by the table of states. Every read it uses
// begins after it was called.
func (c *Cache) lookUp(ctx context.Context, hash contract.Hash, plugin string) outcome {
	cfg := c.config.Load()
	if cfg.static() {
		return c.lookUpStatic(ctx, cfg, hash)
	}
	if out, ok := c.fromL1(&hash); ok {
		return out
	}
	r, l2 := c.readL2(ctx, cfg, hash)
	if l2 == l2Found {
		if out, ok := c.accept(cfg, &hash, r); ok {
			return out
		}
	}
	for range maxAttempts {
		s := c.linked(ctx)
		if s == nil {
			return c.withoutLink(cfg, &hash, l2)
		}
		c.counters.introspections.Add(1)
		res, err := s.ask(ctx, hash, plugin)
		if err != nil {
			c.counters.introspectionErrors.Add(1)
			if c.session.Load() == nil {
				return c.withoutLink(cfg, &hash, l2)
			}
			return unavailable
		}
		switch res.Answer {
		case contract.Found:
			if out, ok := c.accept(cfg, &hash, res.Record); ok {
				return out
			}
			// An invalidation overtook the answer: ask again.
		case contract.Unknown:
			c.table.remember(&hash, res.Revision, c.clock.Mono()+cfg.negativeTTL)
			return outcome{answer: contract.Unknown}
		case contract.Miss, contract.Unavailable:
			return outcome{answer: contract.Unavailable, pluginOnly: true}
		}
	}
	return unavailable
}

// lookUpStatic asks Redis alone: without a control plane it is the authority.
func (c *Cache) lookUpStatic(ctx context.Context, cfg *config, hash contract.Hash) outcome {
	r, l2 := c.readL2(ctx, cfg, hash)
	switch {
	case l2 == l2Absent:
		return outcome{answer: contract.Unknown}
	case l2 != l2Found:
		return unavailable
	case r.Expires != 0 && c.clock.Wall().UnixMilli() >= r.Expires:
		return outcome{answer: contract.Unknown}
	}
	return outcome{answer: contract.Found, packed: r.Pack(nil)}
}

// accept uses a record if the floors allow it, and leaves it in L1 for those
// who come later. A record that has expired answers Unknown, and is remembered
// as such.
func (c *Cache) accept(cfg *config, hash *contract.Hash, r *contract.Record) (outcome, bool) {
	mono := c.clock.Mono()
	expired := r.Expires != 0 && c.clock.Wall().UnixMilli() >= r.Expires
	packed := r.Pack(nil)
	if !c.table.admit(hash, r, packed, !expired) {
		return outcome{}, false
	}
	if expired {
		c.table.remember(hash, r.Revision, mono+cfg.negativeTTL)
		return outcome{answer: contract.Unknown}, true
	}
	return outcome{answer: contract.Found, packed: packed}, true
}

// fromL1 asks L1 again under a live lease: a round before this one, or another
// flight, may have filled it since the request missed.
func (c *Cache) fromL1(hash *contract.Hash) (outcome, bool) {
	mono := c.clock.Mono()
	if !c.leased(mono) {
		return outcome{}, false
	}
	return c.readL1(hash)
}

func (c *Cache) readL1(hash *contract.Hash) (outcome, bool) {
	buf := make([]byte, contract.MaxPacked)
	n, answer := c.table.peek(hash, buf, c.clock.Mono())
	if answer == contract.Miss {
		return outcome{}, false
	}
	return outcome{answer: answer, packed: buf[:n:n]}, true
}

// withoutLink is the end of a look-up that could not be introspected: grace, if
// it is configured, not over, and Redis could not be asked either. A Redis that
// answered, be it without a usable record, leaves no room for grace.
func (c *Cache) withoutLink(cfg *config, hash *contract.Hash, l2 l2Outcome) outcome {
	end, mono := c.leaseEnd.Load(), int64(c.clock.Mono())
	if l2 != l2Failed || end == 0 || mono >= end+int64(cfg.grace) {
		return unavailable
	}
	out, ok := c.readL1(hash)
	if !ok {
		return unavailable
	}
	c.counters.staleServed.Add(1)
	return out
}
