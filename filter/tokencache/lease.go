package tokencache

import (
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// lease lets L1 answer. It is immutable, so that a look-up never combines the end of one
// lease with the clocks of another.
type lease struct {
	// end is the monotonic time from which L1 may no longer answer.
	end time.Duration
	// apart is how far the clocks were apart when the Renew was sent.
	apart time.Duration
}

// newLease starts the lease when the Renew was sent that it answers.
func newLease(sent Instant) *lease {
	return &lease{end: sent.Mono + leaseSpan, apart: sent.apart()}
}

// steady reports whether the clocks agree as they did when the Renew was sent. If the host
// slept in between, its monotonic clock measures too little. L1 would then answer long after
// the control plane has stopped waiting for the lease to end.
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

// leased reports whether L1 may answer now.
func (c *Cache) leased(now Instant) bool {
	l := c.lease.Load()
	return l != nil && now.Mono < l.end && l.steady(now)
}

// inGrace reports whether a lease has ended so recently that the settings let L1 go on.
// After a sleep nobody knows how long ago that was.
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
		return // it does not answer a Renew that is remembered
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
