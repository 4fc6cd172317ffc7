package tokencache

import (
	"context"
	"errors"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

// readNodes looks a token up in a cluster, on behalf of [Cache.readL2]. A look-up that nothing
// else can answer waits for the probe of a server that is left alone.
func (c *Cache) readNodes(ctx context.Context, cfg *config, began *standing, hash contract.Hash, by pauses) (*contract.Record, l2Outcome) {
	for {
		r, outcome, alone := c.visitNodes(ctx, cfg, began, hash)
		if alone == nil {
			return r, outcome
		}
		if alone.probe == nil || !c.onlyRedis(cfg, &hash) {
			c.counters.l2Skipped.Add(1)
			return nil, outcome
		}
		if !by.pause(ctx, alone.probe) {
			return nil, outcome
		}
	}
}

// visitNodes asks the servers of a cluster once. If one of them is left alone, it returns why. If
// some servers answer and others do not, one that answered may have said that the token is
// revoked. This is not the silence that allows grace.
func (c *Cache) visitNodes(ctx context.Context, cfg *config, began *standing, hash contract.Hash) (*contract.Record, l2Outcome, *leftAlone) {
	v := cfg.l2.nodes.visit()
	defer func() { v.end(ctx.Err() != nil, c.logNode) }()
	r, outcome, alone := c.askNodes(ctx, v, cfg, began, hash)
	if outcome == l2Failed && v.heard() {
		outcome = l2Untrusted
	}
	return r, outcome, alone
}

func (c *Cache) askNodes(ctx context.Context, v *visit, cfg *config, began *standing, hash contract.Hash) (*contract.Record, l2Outcome, *leftAlone) {
	r, outcome, err := c.queryL2(context.WithValue(ctx, visitKey{}, v), cfg, began, hash)
	var alone *leftAlone
	switch {
	case err == nil:
	case errors.Is(err, errUnusable):
		outcome = l2Untrusted
	case ctx.Err() != nil: // the caller's time was up or the cache closes
		return nil, l2Failed, nil
	case errors.As(err, &alone):
		return nil, failureOf(err), alone
	default:
		if outcome = failureOf(err); outcome == l2Failed {
			c.counters.l2Errors.Add(1)
			return nil, outcome, nil
		}
	}
	c.countL2(outcome)
	return r, outcome, nil
}

// failureOf classifies the error of a look-up.
func failureOf(err error) l2Outcome {
	if errors.Is(err, redisconn.ErrNotVouched) {
		return l2Untrusted
	}
	return l2Failed
}

// logNode logs what has changed about a server of a cluster.
func (c *Cache) logNode(what nodeChange, m *met) {
	switch what {
	case nodeAsBefore:
	case nodeSilent:
		c.log.Warn(saysSilent, "server", m.address, "error", m.err)
	case nodeStrange:
		c.log.Warn(saysStrange, "server", m.address, "error", m.err)
	case nodeBack:
		c.log.Info(saysBack, "server", m.address)
	}
}
