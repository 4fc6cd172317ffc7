package portal

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// Limits bound what may be done at portals.
type Limits struct {
	// Address and Portal bound attempts that fail: of one address at a portal, and of all addresses
	// at a portal.
	Address, Portal Rate
	// Device and Developer bound logins that succeed: of a developer from one address, and from all.
	Device, Developer Rate
	// AddressFailures and DeveloperFailures are how many failures within Lock lock an address out of
	// a portal, or a developer.
	AddressFailures, DeveloperFailures int
	// Lock is how long a lock lasts.
	Lock time.Duration
	// Remembered bounds the addresses that are remembered, and the developers.
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
	Device: Rate{Burst: 20, Each: 30 * time.Second}, Developer: Rate{Burst: 100, Each: 30 * time.Second},
	AddressFailures: 50, DeveloperFailures: 10, Lock: 15 * time.Minute, Remembered: 32768,
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
	if wait = b.lacks(r, now); wait == 0 {
		b.used += r.Each
	}
	return wait
}

// lacks returns how long until there is an attempt; 0 if there is one.
func (b *bucket) lacks(r Rate, now time.Time) time.Duration {
	b.used = max(0, b.used-max(0, now.Sub(b.since)))
	b.since = now
	return max(0, b.used+r.Each-time.Duration(r.Burst)*r.Each)
}

func (b *bucket) giveBack(r Rate) { b.used = max(0, b.used-r.Each) }

// idle says that a bucket is as a new one.
func (b *bucket) idle(now time.Time) bool { return b.used <= now.Sub(b.since) }

// guard holds off those who try too often. It remembers a bounded number of addresses. If there are
// more, the least guilty is forgotten first, and of those the one that was there longest ago: whoever has
// many addresses does not flush the failures of one with those of others. Who is locked out is never
// forgotten.
type guard struct {
	limits Limits
	now    func() time.Time

	mu       sync.Mutex
	visitors map[visitor]*list.Element // of *visits
	guilt    [guilts]*list.List        // the latest first
	portals  map[string]*bucket
	logins   map[login]*list.Element // of *counted
	latest   *list.List              // logins, the latest first
}

// How guilty a visitor is.
const (
	innocent = iota // nothing counts any more
	tried
	failing
	guessing // half way to a lock
	shut
	guilts
)

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
	guilt       int // in which list it is
}

// login is a developer at an address, or anywhere.
type login struct {
	developer string
	from      netip.Prefix
}

// counted are the logins of one.
type counted struct {
	login
	bucket
}

// maxPortals bounds the portals that are remembered; all are forgotten if there are more.
const maxPortals = 4096

func newGuard(l Limits, now func() time.Time) *guard {
	g := &guard{limits: l, now: now, visitors: map[visitor]*list.Element{}, portals: map[string]*bucket{}, logins: map[login]*list.Element{}, latest: list.New()}
	for i := range g.guilt {
		g.guilt[i] = list.New()
	}
	return g
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
	if wait, locked = g.knock(portal, from); wait > 0 {
		return wait, locked
	}
	return g.brake(portal, from), locked
}

// knock is the part of [guard.enter] that concerns the address alone.
func (g *guard) knock(portal string, from netip.Addr) (wait, locked time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	v := g.visits(visitor{portal, network(from)})
	if v == nil { // there are only such who are locked out
		return g.limits.Address.Each, 0
	}
	wait = v.take(g.limits.Address, now)
	if g.place(v); wait > 0 {
		return wait, 0
	}
	return 0, max(0, v.lockedUntil.Sub(now))
}

// brake is the part of [guard.enter] that concerns all addresses at a portal. Whoever is held up by
// others has done nothing, and is not remembered for it.
func (g *guard) brake(portal string, from netip.Addr) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	wait := g.portal(portal).take(g.limits.Portal, now)
	if e := g.visitors[visitor{portal, network(from)}]; wait > 0 && e != nil {
		v := e.Value.(*visits)
		v.giveBack(g.limits.Address)
		if g.place(v); v.guilt == innocent {
			g.forget(v)
		}
	}
	return wait
}

// succeeded gives an attempt back. free says that it did not go through [guard.brake].
func (g *guard) succeeded(portal string, from netip.Addr, free bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.visitors[visitor{portal, network(from)}]; e != nil {
		v := e.Value.(*visits)
		v.giveBack(g.limits.Address)
		g.place(v)
	}
	if !free {
		g.portal(portal).giveBack(g.limits.Portal)
	}
}

// failed counts a failure.
func (g *guard) failed(portal string, from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	v := g.visits(visitor{portal, network(from)})
	if v == nil {
		return
	}
	if now.Sub(v.counted) >= g.limits.Lock {
		v.failures, v.counted = 0, now
	}
	if v.failures++; v.failures >= g.limits.AddressFailures {
		v.failures, v.counted, v.lockedUntil = 0, now, now.Add(g.limits.Lock)
	}
	g.place(v)
}

// visits returns what is remembered of a visitor; nil if there is no room for another one.
func (g *guard) visits(who visitor) *visits {
	if e, ok := g.visitors[who]; ok {
		return e.Value.(*visits)
	}
	if len(g.visitors) >= g.limits.Remembered && !g.makeRoom() {
		return nil
	}
	v := &visits{visitor: who, bucket: bucket{since: g.now()}}
	g.visitors[who] = g.guilt[innocent].PushFront(v)
	return v
}

// place makes a visitor the latest of those who are as guilty.
func (g *guard) place(v *visits) {
	g.guilt[v.guilt].Remove(g.visitors[v.visitor])
	v.guilt = g.judge(v)
	g.visitors[v.visitor] = g.guilt[v.guilt].PushFront(v)
}

func (g *guard) judge(v *visits) int {
	now := g.now()
	counts := v.failures > 0 && now.Sub(v.counted) < g.limits.Lock
	switch {
	case now.Before(v.lockedUntil):
		return shut
	case counts && v.failures > g.limits.AddressFailures/2:
		return guessing
	case counts && v.failures > 1:
		return failing
	case counts || !v.idle(now):
		return tried
	}
	return innocent
}

// makeRoom forgets a visitor: one who is innocent by now, or else the least guilty.
func (g *guard) makeRoom() bool {
	for _, l := range g.guilt {
		if e := l.Back(); e != nil && g.judge(e.Value.(*visits)) == innocent {
			g.forget(e.Value.(*visits))
			return true
		}
	}
	for _, l := range g.guilt[:shut] {
		if e := l.Back(); e != nil {
			g.forget(e.Value.(*visits))
			return true
		}
	}
	return false
}

func (g *guard) forget(v *visits) {
	g.guilt[v.guilt].Remove(g.visitors[v.visitor])
	delete(g.visitors, v.visitor)
}

// admit says how long a developer has to wait who has logged in too often.
func (g *guard) admit(developer string, from netip.Addr) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for who, rate := range g.rates(developer, from) {
		if e, ok := g.logins[who]; ok {
			wait = max(wait, e.Value.(*counted).lacks(rate, now))
		}
	}
	return wait
}

// loggedIn counts a login. Only who has logged in is remembered, and of each developer no more addresses
// than its own rate allows: strangers push nobody out.
func (g *guard) loggedIn(developer string, from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for who, rate := range g.rates(developer, from) {
		g.of(who).take(rate, now)
	}
}

func (g *guard) rates(developer string, from netip.Addr) map[login]Rate {
	return map[login]Rate{{developer, network(from)}: g.limits.Device, {developer: developer}: g.limits.Developer}
}

// of returns what is counted of logins, which are the latest then.
func (g *guard) of(who login) *bucket {
	if e, ok := g.logins[who]; ok {
		g.latest.MoveToFront(e)
		return &e.Value.(*counted).bucket
	}
	if len(g.logins) >= g.limits.Remembered {
		oldest := g.latest.Back()
		delete(g.logins, oldest.Value.(*counted).login)
		g.latest.Remove(oldest)
	}
	c := &counted{login: who, bucket: bucket{since: g.now()}}
	g.logins[who] = g.latest.PushFront(c)
	return &c.bucket
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
