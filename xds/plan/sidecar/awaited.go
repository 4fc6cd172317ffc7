package sidecar

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
)

// await reports whether an inbound has to wait for something beyond the mesh that its policies
// refer to. The planner must not plan a refusal only because something has not been read yet.
// While it is being read, an inbound keeps its last version, and an inbound without one is
// held back. Something that cannot be read at all holds back only proxies without a set, so
// that none starts with a refusal. A proxy that has a set gets the new one: a check that
// cannot be performed must not be skipped, and the rest of the proxy must continue to change.
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
		in.part.failures = []plan.Failure{{Cell: "inbound " + in.shape.Cluster, Err: errors.New(what), Kept: !in.missing}}
		return true
	}
	return false
}

// awaited returns what a selection waits for, or an empty text. A policy that does not affect
// the inbound, or that refuses on it in any case, waits for nothing.
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

// held returns what a proxy waits for, or an empty text. A proxy without a set waits for
// everything that its class awaits. Another proxy waits only for an inbound that has no
// earlier version.
func (x *proxy) held() string {
	if r := x.class.reach; r.awaits != "" && (!x.begun || r.missing) {
		return r.awaits
	}
	for _, in := range x.class.inbounds {
		if in.awaits != "" && (!x.begun || in.missing) {
			return in.awaits
		}
	}
	return ""
}

// Awaits returns what a proxy waits for, before it gets its first set or a new one, or an
// empty text. The proxy is planned once that was read and Outside was called.
func (p *Planner) Awaits(name string) string {
	if x := p.proxies[name]; x != nil {
		return x.held()
	}
	return ""
}

// Begun says that a joined proxy already has a set, from an earlier planner. Something that
// cannot be read then no longer holds it back.
func (p *Planner) Begun(name string) {
	if x := p.proxies[name]; x != nil && !x.begun {
		x.begun = true
		p.loose[x] = struct{}{}
	}
}
