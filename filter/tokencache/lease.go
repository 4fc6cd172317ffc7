package tokencache

import (
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// lease lets L1 answer. It is immutable, so that a look-up never sees the end of
// one lease beside the clocks of another.
type lease struct {
	// end is the monotonic time from which on L1 may not answer.
	end time.Duration
	// apart is how far the clocks were apart when its Renew was sent.
	apart time.Duration
}

// newLease counts from the sending of the Renew that it answers.
func newLease(sent Instant) *lease {
	return &lease{end: sent.Mono + leaseSpan, apart: sent.apart()}
}

// steady says whether the clocks agree as they did when the Renew was sent. A
// host that slept meanwhile measures too little with its monotonic clock, and
// would answer from memory long after the control plane has stopped to wait.
func (l *lease) steady(now Instant) bool {
	d := now.apart() - l.apart
	return d <= contract.ClockTolerance && d >= -contract.ClockTolerance
}

// setLease puts a lease in force; nil takes it away.
func (c *Cache) setLease(l *lease) {
	c.leasing.Lock()
	defer c.leasing.Unlock()
	c.lease.Store(l)
	c.witness.leased(l)
}

// leased says whether L1 may answer now.
func (c *Cache) leased(now Instant) bool {
	l := c.lease.Load()
	return l != nil && now.Mono < l.end && l.steady(now)
}

// inGrace says whether a lease has ended so short a time ago that the settings
// let L1 go on. After a sleep nobody knows how long ago that was.
func (c *Cache) inGrace(cfg *config, now Instant) bool {
	l := c.lease.Load()
	return l != nil && now.Mono < l.end+cfg.grace && l.steady(now)
}

// grant takes the lease that the control plane has given for a Renew.
func (s *session) grant(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.renews[number%maxRenews]
	if s.left || r.number != number || number == 0 {
		return // an answer to nothing that is remembered extends nothing
	}
	s.granted = true
	next := newLease(r.sent)
	if !next.steady(s.cache.clock.Now()) {
		s.cache.counters.clocksApart.Add(1)
		s.cache.log.Warn("the clocks moved apart while a lease was asked for: the host slept, or the time was set")
		return
	}
	s.cache.lastLease.Store(&r.sent)
	if old := s.cache.lease.Load(); old == nil || next.end > old.end {
		s.cache.setLease(next)
	}
}
