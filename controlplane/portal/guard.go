package portal

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// Limits bound what strangers may do at portals.
type Limits struct {
	// Address and Portal bound attempts that fail: of one address at a portal, and of all addresses
	// at a portal.
	Address, Portal Rate
	// AddressFailures and DeveloperFailures are how many failures within Lock lock an address out of
	// a portal, or a developer.
	AddressFailures, DeveloperFailures int
	// Lock is how long a lock lasts.
	Lock time.Duration
	// Remembered bounds the addresses that are remembered.
	Remembered int
}

// Rate allows a number of attempts at once, and another one after each interval.
type Rate struct {
	Burst int
	Each  time.Duration
}

// DefaultLimits are those of logins. All failures that a portal allows for a week, which is how long
// events are kept, are about a million events.
var DefaultLimits = Limits{
	Address: Rate{Burst: 20, Each: 3 * time.Second}, Portal: Rate{Burst: 200, Each: 500 * time.Millisecond},
	AddressFailures: 50, DeveloperFailures: 10, Lock: 15 * time.Minute, Remembered: 16384,
}

// registrations are the limits of those who register. None of them is given back.
var registrations = Limits{
	Address: Rate{Burst: 5, Each: time.Minute}, Portal: Rate{Burst: 100, Each: 10 * time.Second}, Remembered: 4096,
}

// trials are the limits of events that are tests.
var trials = Limits{Address: Rate{Burst: 10, Each: 6 * time.Second}, Portal: Rate{Burst: 10, Each: 6 * time.Second}, Remembered: 4096}

// bucket counts attempts by a [Rate].
type bucket struct {
	used  time.Duration // at time at
	since time.Time
}

// take uses one attempt up. If there is none, it returns how long until there is one.
func (b *bucket) take(r Rate, now time.Time) (wait time.Duration) {
	b.used = max(0, b.used-max(0, now.Sub(b.since)))
	b.since = now
	if over := b.used + r.Each - time.Duration(r.Burst)*r.Each; over > 0 {
		return over
	}
	b.used += r.Each
	return 0
}

func (b *bucket) giveBack(r Rate) { b.used = max(0, b.used-r.Each) }

// guard holds off those who try too often. It remembers a bounded number of addresses: the one that
// was there longest ago is forgotten first.
type guard struct {
	limits Limits
	now    func() time.Time

	mu       sync.Mutex
	visitors map[visitor]*list.Element // of *visits
	recent   *list.List                // the latest first
	portals  map[string]*bucket
}

// visitor is an address at a portal.
type visitor struct {
	portal string
	from   netip.Prefix
}

// visits are what is remembered of a visitor.
type visits struct {
	visitor
	bucket
	failures    int
	counted     time.Time // since when failures are counted
	lockedUntil time.Time
	// welcome is until when the visitor is not held up by the failures of others, because somebody
	// has logged in from there.
	welcome time.Time
}

// welcomed is how long a login makes an address welcome.
const welcomed = 30 * 24 * time.Hour

// maxPortals bounds the portals that are remembered; all are forgotten if there are more.
const maxPortals = 4096

func newGuard(l Limits, now func() time.Time) *guard {
	return &guard{limits: l, now: now, visitors: map[visitor]*list.Element{}, recent: list.New(), portals: map[string]*bucket{}}
}

// network is what counts as one address: an IPv4 address, or the network that one subscriber has in
// IPv6. Addresses that are not known are one.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// enter begins an attempt. wait is how long to wait if there have been too many; then nothing may be
// done. locked is for how long the address is locked out.
func (g *guard) enter(portal string, from netip.Addr) (wait, locked time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	v := g.visits(visitor{portal, network(from)})
	if wait = v.take(g.limits.Address, now); wait > 0 {
		return wait, 0
	}
	if !now.Before(v.welcome) {
		if wait = g.portal(portal).take(g.limits.Portal, now); wait > 0 {
			v.giveBack(g.limits.Address)
			return wait, 0
		}
	}
	return 0, max(0, v.lockedUntil.Sub(now))
}

// succeeded gives an attempt back.
func (g *guard) succeeded(portal string, from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	v := g.visits(visitor{portal, network(from)})
	v.giveBack(g.limits.Address)
	if !now.Before(v.welcome) {
		g.portal(portal).giveBack(g.limits.Portal)
	}
	v.welcome = now.Add(welcomed)
}

// failed counts a failure.
func (g *guard) failed(portal string, from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	v := g.visits(visitor{portal, network(from)})
	if now.Sub(v.counted) >= g.limits.Lock {
		v.failures, v.counted = 0, now
	}
	if v.failures++; v.failures >= g.limits.AddressFailures {
		v.failures, v.counted, v.lockedUntil = 0, now, now.Add(g.limits.Lock)
	}
}

// visits returns what is remembered of a visitor, who is the latest then.
func (g *guard) visits(who visitor) *visits {
	if e, ok := g.visitors[who]; ok {
		g.recent.MoveToFront(e)
		return e.Value.(*visits)
	}
	if len(g.visitors) >= g.limits.Remembered {
		oldest := g.recent.Back()
		delete(g.visitors, oldest.Value.(*visits).visitor)
		g.recent.Remove(oldest)
	}
	v := &visits{visitor: who, bucket: bucket{since: g.now()}}
	g.visitors[who] = g.recent.PushFront(v)
	return v
}

func (g *guard) portal(id string) *bucket {
	if b, ok := g.portals[id]; ok {
		return b
	}
	if len(g.portals) >= maxPortals {
		clear(g.portals)
	}
	b := &bucket{since: g.now()}
	g.portals[id] = b
	return b
}
