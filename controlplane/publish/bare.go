package publish

import "time"

// says counts the streams of a proxy, and those of them that say that the proxy has no
// filter. Several streams are normal while a proxy reconnects. One stream may belong to an
// attacker who stole the token of the proxy. That stream alone must not remove the filter,
// and so all checks, from a proxy that has it.
type says struct{ streams, bare int }

// bareAll reports whether all streams of the proxy say that it has no filter.
func (s says) bareAll() bool { return s.streams > 0 && s.bare == s.streams }

// say adds n streams to the count. n is negative when a stream ends.
func (p *meshPlane) say(dataplane string, bare bool, n int) {
	s := p.says[dataplane]
	if s.streams += n; bare {
		s.bare += n
	}
	if s.streams <= 0 { // leave has forgotten the proxy already
		delete(p.says, dataplane)
		return
	}
	p.says[dataplane] = s
}

// less removes one of several streams of a proxy. If the remaining streams agree now, the
// plan changes, and less returns the new sets.
func (p *meshPlane) less(dataplane string, bare bool, now time.Time) batch {
	before := p.says[dataplane].bareAll()
	p.say(dataplane, bare, -1)
	after := p.says[dataplane].bareAll()
	if before == after || p.retry.err != nil { // after a failure, restart tells the next planner
		return nil
	}
	return p.plan(now, func(s sidecarPlanner) { s.Bare(dataplane, after) })
}
