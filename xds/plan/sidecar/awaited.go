package sidecar

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
)

// await reports whether an inbound has to wait for what its policies ask of beyond
// the mesh. A refusal is not planned because something is not read yet: while it is
// being read, an inbound stays as it last was, and one that never was is held back.
// What cannot be read at all holds back the proxies that have nothing yet, so that
// none begins with a refusal; one that has something is given it, because a check
// that cannot be made must not be skipped, and the rest of it must go on.
func (p *Planner) await(c *class, in *inbound, chosen picks) bool {
	old := c.formerly(in)
	for i := range p.policies {
		what, reading := p.awaited(c, chosen[i], i, in.shape)
		if what == "" {
			continue
		}
		if old.chains == nil || old.awaits != "" {
			in.awaits = what
		}
		if !reading {
			continue
		}
		in.chains, in.part, in.missing = old.chains, old.part, old.chains == nil
		in.part.learned = p.learnAll(nil, chosen)
		in.part.failures = []plan.Failure{{Cell: "inbound " + in.shape.Cluster, Err: errors.New(what), Kept: true}}
		return true
	}
	return false
}

// awaited says what a selection waits for, empty for nothing. A policy that has no
// effect on the inbound, or refuses on it in any case, waits for nothing.
func (p *Planner) awaited(c *class, s *policy.Selection, i int, shape *inboundShape) (what string, reading bool) {
	pol := p.policies[i]
	if s == nil || pol.HTTPOnly && !mesh.IsHTTP(shape.Tags.Protocol()) || pol.NeedsFilter && c.shape.Bare {
		return "", false
	}
	if f, ok := s.Facts.(policy.Awaiting); ok {
		return f.Awaited()
	}
	return "", false
}

// held says what a proxy waits for, empty for nothing: one that has no set yet for all
// that its class awaits, another one for what there is nothing of that could be in its
// place.
func (x *proxy) held() string {
	for _, in := range x.class.inbounds {
		if in.awaits != "" && (!x.begun || in.missing) {
			return in.awaits
		}
	}
	return ""
}

// Awaits says for what a proxy waits that has no set yet, or keeps the one that it
// has; empty for nothing. It is planned once that was read and Outside was called.
func (p *Planner) Awaits(name string) string {
	if x := p.proxies[name]; x != nil {
		return x.held()
	}
	return ""
}

// Begun says that a proxy that has joined has a set, of a planner before this one: what
// cannot be read keeps it from nothing any more.
func (p *Planner) Begun(name string) {
	if x := p.proxies[name]; x != nil && !x.begun {
		x.begun = true
		p.loose[x] = struct{}{}
	}
}
