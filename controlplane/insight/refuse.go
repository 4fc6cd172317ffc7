package insight

import (
	"time"

	"github.com/meshgate/meshgate/xds/server"
)

// How refusals are kept and logged.
const (
	// maxDeparted is the number of forgotten nodes that are remembered, and the number of
	// those among them that may be listed because they keep asking.
	maxDeparted = 1024
	// orphanLife is how long such a node is listed after its last refusal.
	orphanLife = 24 * time.Hour
	// refusalPause is how long no further refusals of one node, or of all strangers
	// together, are logged. refusalAgain is when the same reason is logged again.
	refusalPause = 10 * time.Second
	refusalAgain = time.Minute
)

// Refused implements [server.Observer].
func (s *Insights) Refused(e server.Event) { s.TurnedAway(e.Node, e.Error, e.Proved) }

// TurnedAway records that a client that called itself a node was refused, and why. proved
// says that the client was the node. An unproved refusal is only attached to a node that is
// already known, so it cannot fill the memory. It is not stored, because anybody could cause
// writes. It does not change a state, because anybody who knows the name of an absent node
// could make it look like a present one without a token.
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

// follow returns the refusal to keep after a further one, or nil to keep the old one, which
// may be nil itself. An unproved refusal never hides a proved one, and does not change the
// reason of an earlier one, so that invented reasons wake nobody.
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

// stranger counts a refusal of an unknown name, and logs some of them. The caller holds
// s.mu.
func (s *Insights) stranger(node, reason string, now time.Time) {
	s.strangers++
	s.unlogged++
	if now.Sub(s.logged) < refusalPause {
		return
	}
	s.Log.Warn("stranger_refused", "node", cut(node, maxVersion), "reason", cut(reason, maxVersion), "refusals", s.unlogged)
	s.logged, s.unlogged = now, 0
}

// Refusals returns the number of refusals of known nodes, and of strangers.
func (s *Insights) Refusals() (known, strangers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals, s.strangers
}

// depart remembers a forgotten node, because it may keep asking: its Dataplane was deleted,
// but its proxy may still run. The caller holds s.mu.
func (s *Insights) depart(at id, p *proxy) {
	delete(s.proxies, at)
	s.tell(at)
	s.move()
	if len(s.departed) >= maxDeparted {
		for any := range s.departed { // an arbitrary one, because none is more important
			delete(s.departed, any)
			break
		}
	}
	s.departed[at] = p
}

// adopt lists a forgotten node again because it keeps asking. The caller holds s.mu.
func (s *Insights) adopt(at id) *proxy {
	p := s.departed[at]
	if p == nil || s.orphans >= maxDeparted {
		return nil
	}
	delete(s.departed, at)
	p.forgotten, p.orphan = false, true
	s.orphans++
	s.proxies[at] = p
	s.tell(at)
	return p
}

// keep records that a node is no longer an orphan. The caller holds s.mu.
func (s *Insights) keep(p *proxy) {
	if p.orphan {
		p.orphan = false
		s.orphans--
	}
}

// dropOrphans forgets orphans that no longer ask. The caller holds s.mu.
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

// remove drops a node for good. The caller holds s.mu.
func (s *Insights) remove(at id, p *proxy) {
	s.keep(p)
	delete(s.proxies, at)
	delete(s.departed, at)
	s.changed(at, p, true)
	s.tell(at)
	s.move()
}

// Expect records that a node may come, because a Dataplane with its name exists or it has
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
	s.tell(at)
	s.move()
}

// Remove drops a node that is gone for good, unless it is connected.
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

// Certified records the end of an identity that was given to a gateway.
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
