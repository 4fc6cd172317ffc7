package tokencache

import (
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Stats is a snapshot of the counters since [Open]; they only grow.
type Stats struct {
	// Hits and NegativeHits are look-ups that L1 answered: with a record, or that the token
	// is unknown or expired. Misses are those that it could not answer.
	Hits, NegativeHits, Misses uint64
	// Bypassed look-ups did not ask L1 because there was no live lease.
	Bypassed uint64
	// Evictions are usable records that left L1 for lack of room.
	Evictions uint64
	// L2Hits were answered by Redis. L2Errors are failed reads. L2Skipped were not attempted
	// because the breaker was open or nothing is vouched for. L2Untrusted could not use what
	// Redis held, or met another server than the control plane vouches for.
	L2Hits, L2Errors, L2Skipped, L2Untrusted uint64
	// L2Foreign records in Redis were not signed by a known key.
	L2Foreign uint64
	// Introspections were sent to the control plane. IntrospectionErrors are those without
	// an answer in time.
	Introspections, IntrospectionErrors uint64
	// Coalesced waiters joined a look-up in progress. Rejected ones exceeded the bounds of
	// look-ups or waiters. Abandoned ones were given up before their turn came.
	Coalesced, Rejected, Abandoned uint64
	// StaleServed answers came from L1 in the grace time.
	StaleServed uint64
	// LinkConnects counts links that were welcomed. LinkFailures counts attempts that were
	// not welcomed and links that broke.
	LinkConnects, LinkFailures uint64
	// BreakerOpen says that Redis, or a server of a cluster, is considered dead at the
	// moment.
	BreakerOpen bool
	// Linked and Leased are the state of the freshness link.
	Linked, Leased bool
	// LeaseAge is the time since the latest lease was asked for, or 0 without a lease.
	LeaseAge time.Duration
	// Log is the log that the filter follows, and Applied the position up to which it has
	// followed it. Epoch is the epoch of Redis that it believes, or 0 if none.
	Log     contract.LogID
	Applied contract.Position
	Epoch   contract.Epoch
	// Starts counts how often the memory began anew with a log. ClocksApart counts the
	// leases that were not taken because the clocks disagreed.
	Starts, ClocksApart uint64
}

// counters are the counters that are not kept in shards.
type counters struct {
	bypassed, l2Hits, l2Errors, l2Skipped, l2Untrusted, l2Foreign atomic.Uint64
	introspections, introspectionErrors                           atomic.Uint64
	coalesced, rejected, abandoned, staleServed                   atomic.Uint64
	linkConnects, linkFailures, starts, clocksApart               atomic.Uint64
}

// Stats returns the current counters and states.
func (c *Cache) Stats() Stats {
	st := c.standing.Load()
	s := Stats{
		Bypassed: c.counters.bypassed.Load(),
		L2Hits:   c.counters.l2Hits.Load(), L2Errors: c.counters.l2Errors.Load(),
		L2Skipped: c.counters.l2Skipped.Load(), L2Untrusted: c.counters.l2Untrusted.Load(), L2Foreign: c.counters.l2Foreign.Load(),
		Introspections: c.counters.introspections.Load(), IntrospectionErrors: c.counters.introspectionErrors.Load(),
		Coalesced: c.counters.coalesced.Load(), Rejected: c.counters.rejected.Load(), Abandoned: c.counters.abandoned.Load(),
		StaleServed:  c.counters.staleServed.Load(),
		LinkConnects: c.counters.linkConnects.Load(), LinkFailures: c.counters.linkFailures.Load(),
		Linked: c.session.Load() != nil, Leased: c.leased(c.clock.Now()),
		Log: st.log, Applied: st.applied, Epoch: st.trust.Epoch,
		Starts: c.counters.starts.Load(), ClocksApart: c.counters.clocksApart.Load(),
	}
	if l := c.lease.Load(); l != nil {
		s.LeaseAge = c.clock.Now().Mono - (l.end - leaseSpan)
	}
	if l2 := c.config.Load().l2; l2 != nil {
		s.BreakerOpen = l2.isOpen()
	}
	for i := range c.table.shards {
		sh := &c.table.shards[i]
		s.Hits += sh.hits.Load()
		s.NegativeHits += sh.negativeHits.Load()
		s.Misses += sh.misses.Load()
		s.Evictions += sh.evictions.Load()
	}
	return s
}
