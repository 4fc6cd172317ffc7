package publish

import "time"

// says counts the streams of a proxy, and those that say that it has no filter. Several
// are normal while a proxy reconnects; one may be that of whoever has stolen its token,
// who must not take the filter, and so all that it protects, from a proxy that has it.
type says struct{ streams, bare int }

// bareAll reports whether the proxy has no filter: all its streams say so.
func (s says) bareAll() bool { return s.streams > 0 && s.bare == s.streams }

// say counts a stream, or takes it off with a negative number.
func (p *meshPlane) say(dataplane string, bare bool, n int) {
	s := p.says[dataplane]
	if s.streams += n; bare {
		s.bare += n
	}
	if s.streams <= 0 { // leave has forgotten it already
		delete(p.says, dataplane)
		return
	}
	p.says[dataplane] = s
}

// less takes one of several streams off a proxy, and returns the sets that are new because
// those that are left agree now.
func (p *meshPlane) less(dataplane string, bare bool, now time.Time) batch {
	before := p.says[dataplane].bareAll()
	p.say(dataplane, bare, -1)
	after := p.says[dataplane].bareAll()
	if before == after || p.retry.err != nil { // the next planner is told
		return nil
	}
	return p.plan(now, func(s sidecarPlanner) { s.Bare(dataplane, after) })
}
