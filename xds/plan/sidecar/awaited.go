package sidecar

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
)

// await reports whether an inbound has to wait for what its policies ask of beyond
// the mesh. A refusal is not planned because something is not read yet: while it is
// being read, an inbound stays as it last was, and one that never was has no proxy
// begin with it. What cannot be read at all holds up new inbounds only; an old one
// refuses then, because a check that cannot be made must not be skipped.
func (p *Planner) await(c *class, in *inbound, chosen selections) bool {
	old := c.formerly(in)
	for i := range p.policies {
		what, reading := p.awaited(c, chosen[i], i, in.shape)
		switch {
		case what == "", old.chains != nil && !reading:
			continue
		case old.chains == nil:
			in.awaits = what
		}
		in.chains, in.part = old.chains, old.part
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

// held says what the proxies of a class wait for, empty for nothing.
func (c *class) held() string {
	for _, in := range c.inbounds {
		if in.awaits != "" {
			return in.awaits
		}
	}
	return ""
}

// Awaits says for what a proxy waits that has no set yet, or keeps the one that it
// has; empty for nothing. It is planned once that was read and Outside was called.
func (p *Planner) Awaits(name string) string {
	if x := p.proxies[name]; x != nil {
		return x.class.held()
	}
	return ""
}
