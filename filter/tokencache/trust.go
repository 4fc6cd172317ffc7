package tokencache

import (
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// leaseNoted is how far the time of the last lease in the trust file may be off. Too early,
// it only makes a restarted filter believe Redis for less long. Too late, which it is if the
// clock was set back, it is no more so than [contract.LeaseAhead] allows.
const leaseNoted = time.Hour

// adopt puts in force what the control plane vouches for in Redis and whose credentials
// the gateway accepts, and has both brought to the disk; the number is that of the wish.
// A session that has said goodbye puts nothing there any more: a filter that starts later
// would believe it, and nobody would know of that filter.
func (c *Cache) adopt(cp *contract.ControlPlaneSettings, t contract.Trust, of *contract.Scopes, welcome bool) (number uint64, err error) {
	if len(t.Servers) > contract.MaxServers {
		return 0, errServers
	}
	t.Servers = slices.Compact(slices.Sorted(slices.Values(t.Servers)))
	c.configuring.Lock()
	defer c.configuring.Unlock()
	if now := c.base.ControlPlane; now == nil || *now != *cp || c.departed && !welcome {
		return 0, errMoved
	}
	c.departed = false
	if !of.Continues(c.standing.Load().scopes) {
		c.rescope(of)
	}
	if known := c.standing.Load().trust; !sameTrust(known, t) {
		c.entrust(t)
		c.log.Info("trust in redis changed", "trusted", t.Epoch != 0, "servers", len(t.Servers))
	}
	return c.rememberTrust(cp, t, of), nil
}

// rescope puts in force whose credentials the gateway accepts. All that is remembered was
// judged by others, also that a token is unknown, or in one hand only. What is looked up
// meanwhile is kept out by the generation.
func (c *Cache) rescope(of *contract.Scopes) {
	generation := c.table.outdate()
	c.amend(func(st *standing) { st.generation, st.scopes = generation, of })
}

// entrust puts a trust in force. Clients of other servers are given up; meanwhile
// nothing is believed. configuring is held.
func (c *Cache) entrust(t contract.Trust) {
	c.amend(func(st *standing) { st.trust = contract.Trust{} })
	if err := c.apply(c.base, c.level2, t); err != nil {
		// The client that is there is one of other servers, which is not read.
		c.log.Error("redis cannot be used", "error", err)
	}
	c.amend(func(st *standing) { st.trust = t })
}

// trusted applies rules 1 and 2 of "Trust" in docs/adr/0003-freshness.md: the
// control plane vouches for the servers that the client of cfg connects to, and
// has not forgotten this filter. Whoever was not told whose credentials count reads none.
func (c *Cache) trusted(cfg *config, st *standing) bool {
	if st.scopes == nil || st.trust.Epoch == 0 || !slices.Equal(cfg.l2.servers, st.trust.Servers) {
		return false
	}
	now := c.clock.Now()
	if len(st.trust.Servers) == 0 { // nobody could tell that it is another Redis
		return c.session.Load() != nil && c.leased(now)
	}
	last := c.lastLease.Load()
	if last == nil {
		return false
	}
	wall, mono := time.Duration(now.Wall-last.Wall), now.Mono-last.Mono
	return wall >= -contract.LeaseAhead && max(wall, mono) < contract.TrustFor
}

// believes applies rules 3 and 4 but for the signature: this Redis is the one
// that the control plane has written last, has lost no write that the filter
// knows of, and the record is of that Redis and not too old.
func (c *Cache) believes(st *standing, r *contract.Record, rawClock []byte) bool {
	if rawClock == nil {
		return false
	}
	clock, err := contract.ParseClock(rawClock)
	if err != nil || clock.Epoch != st.trust.Epoch || r.Epoch != st.trust.Epoch {
		return false
	}
	if clock.Log == st.log && clock.Position < st.applied {
		return false
	}
	return r.Until > c.clock.Now().millis()
}
