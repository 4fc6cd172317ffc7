package insight

import (
	"time"

	"github.com/meshgate/meshgate/xds/server"
)

// How refusals are kept and logged.
const (
	// maxDeparted is how many nodes that were forgotten are remembered, and how many of
	// them may be listed because they go on asking.
	maxDeparted = 1024
	// orphanLife is how long one of these is listed after it was refused last.
	orphanLife = 24 * time.Hour
	// refusalPause is how long nothing more is logged of refusals of one node, and of
	// all strangers together; refusalAgain is when the same reason is logged again.
	refusalPause = 10 * time.Second
	refusalAgain = time.Minute
)

// Refused implements [server.Observer].
func (s *Insights) Refused(e server.Event) { s.TurnedAway(e.Node, e.Error, e.Proved) }

// TurnedAway records that whoever called itself a node was refused, and why; proved says
// that it was the node. A name that is not proved fills nothing, because it is attached to
// a node that is known by it; is not stored, because anybody could have rows written; and
// changes no state: anybody who knows the name of a node that is away could have it taken
// for one that is there and lacks a token.
func (s *Insights) TurnedAway(node, reason string, proved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := *s.now()
	at, ok := parse(node)
	p := s.proxies[at]
	if ok && p == nil && proved {
		p = s.adopt(at)
	}
	if !ok || p == nil {
		s.stranger(node, reason, now)
		return
	}
	s.refusals++
	reason = cut(reason, maxError)
	state, old := p.state(), p.facts.Refusal
	if r := old.follow(Refusal{Since: now, Time: now, Count: 1, Reason: reason, Proved: proved}); r != nil {
		p.facts.Refusal = r // readers may hold the old one
		if proved {
			s.changed(at, p, false)
		}
		if r.Count == 1 || p.state() != state {
			s.move()
		}
	}
	if quiet := now.Sub(p.logged); quiet >= refusalAgain || quiet >= refusalPause && p.loggedReason != reason {
		s.Log.Warn("node_refused", "node", at.node(), "reason", reason, "times", p.facts.Refusal.Count, "proved", proved)
		p.logged, p.loggedReason = now, reason
	}
}

// follow is what is kept of a refusal after the one that is kept, which may be nil; nil
// keeps that. One that is not proved never hides one that is, and has no second reason:
// whoever invents them wakes nobody.
func (old *Refusal) follow(r Refusal) *Refusal {
	switch {
	case old == nil || r.Proved && !old.Proved:
		return &r
	case old.Proved && !r.Proved:
		return nil
	case old.Reason == r.Reason || !r.Proved:
		r.Since, r.Count, r.Reason = old.Since, old.Count+1, old.Reason
	}
	return &r
}

// stranger counts a refusal of a name that is not known, and logs some. s.mu is held.
func (s *Insights) stranger(node, reason string, now time.Time) {
	s.strangers++
	s.unlogged++
	if now.Sub(s.logged) < refusalPause {
		return
	}
	s.Log.Warn("stranger_refused", "node", cut(node, maxVersion), "reason", cut(reason, maxVersion), "refusals", s.unlogged)
	s.logged, s.unlogged = now, 0
}

// Refusals counts those of nodes that are known, and those of strangers.
func (s *Insights) Refusals() (known, strangers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals, s.strangers
}

// depart remembers a node that is forgotten, for it may go on asking: its Dataplane was
// deleted, but not the proxy. s.mu is held.
func (s *Insights) depart(at id, p *proxy) {
	delete(s.proxies, at)
	s.move()
	if len(s.departed) >= maxDeparted {
		for any := range s.departed { // whichever: no one has a better claim
			delete(s.departed, any)
			break
		}
	}
	s.departed[at] = p
}

// adopt lists a node again that is forgotten and goes on asking. s.mu is held.
func (s *Insights) adopt(at id) *proxy {
	p := s.departed[at]
	if p == nil || s.orphans >= maxDeparted {
		return nil
	}
	delete(s.departed, at)
	p.forgotten, p.orphan = false, true
	s.orphans++
	s.proxies[at] = p
	return p
}

// keep says that a node is no orphan any more. s.mu is held.
func (s *Insights) keep(p *proxy) {
	if p.orphan {
		p.orphan = false
		s.orphans--
	}
}

// dropOrphans forgets those that ask no more. s.mu is held.
func (s *Insights) dropOrphans() {
	if s.orphans == 0 || s.closed {
		return
	}
	now := s.Now()
	for at, p := range s.proxies {
		if p.orphan && now.Sub(p.facts.Refusal.Time) > orphanLife {
			s.remove(at, p)
		}
	}
}

// remove drops a node for good. s.mu is held.
func (s *Insights) remove(at id, p *proxy) {
	s.keep(p)
	delete(s.proxies, at)
	delete(s.departed, at)
	s.changed(at, p, true)
	s.move()
}

// Expect says that a node may come: there is a Dataplane of its name, or it has
// enrolled. It is listed before it ever connects.
func (s *Insights) Expect(node string) {
	at, ok := parse(node)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || s.closed {
		return
	}
	if p := s.proxies[at]; p != nil {
		s.keep(p)
		p.forgotten = false
		return
	}
	p := s.departed[at]
	if p == nil {
		p = &proxy{}
	}
	delete(s.departed, at)
	p.forgotten = false
	s.proxies[at] = p
	s.changed(at, p, false)
	s.move()
}

// Remove drops what is known of a node that is gone for good, unless it is connected.
func (s *Insights) Remove(node string) (removed bool) {
	at, ok := parse(node)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[at]
	if !ok || p == nil || p.streams > 0 || s.closed {
		return false
	}
	s.remove(at, p)
	return true
}

// Certified records the end of an identity that a gateway was given.
func (s *Insights) Certified(node string, expires time.Time) {
	at, ok := parse(node)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[at]
	if !ok || p == nil || s.closed {
		return
	}
	expires = expires.UTC()
	p.facts.Certificate = &expires
	s.changed(at, p, false)
	s.move()
}
