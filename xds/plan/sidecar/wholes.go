package sidecar

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// forProxy chooses the policies on the proxies of a class as a whole. It returns those that
// edit outbounds.
func (p *Planner) forProxy(c *class) (outbounds *policy.Choices) {
	whole := p.blank(atPiece)
	c.learned = nil
	for i, pol := range p.policies {
		if pol.Attachment.Has(policy.AtProxy) {
			whole[i] = p.choose(pol, selection.OnProxy(p.room[:0], p.state, pol, c.sources)...)
			c.learned = p.learn(c.learned, i, whole[i])
		}
	}
	for i, d := range p.deciders {
		if d >= 0 && whole[d] != nil {
			whole[i] = nil
		}
	}
	if chosen := p.interner.Choices(whole); chosen != c.proxy {
		c.proxy, c.staleIn = chosen, true
		p.mark(c)
	}
	return p.only(whole, func(pol *policy.Policy) bool {
		return pol.Outbound != nil || pol.OutboundRoutes != nil || pol.Cluster != nil || pol.Route != nil || pol.Target != nil
	})
}

// problemsOf lists the policies on the whole proxies of a class that cannot take effect.
func (p *Planner) problemsOf(c *class) (out []plan.Failure) {
	for i := range p.policies {
		out = p.problem(out, i, c.proxy.At(i))
	}
	return out
}

// problem appends what is wrong with what one policy chose, if anything is.
func (p *Planner) problem(to []plan.Failure, i int, s *policy.Selection) []plan.Failure {
	if s == nil {
		return to
	}
	if text, pol := policy.Problem(s.Facts), p.policies[i]; text != "" {
		return append(to, plan.Failure{Cell: pol.Named(s.Policies[0].Name), Err: errors.New(text), By: pol.Names(s)})
	}
	return to
}

// idleAt notes which fields of the policies that are chosen for an outbound, or for one of its
// destinations, have no effect there.
func (p *Planner) idleAt(o *outbound, chosen picks, where policy.Attachment, protocol string) {
	at := policy.Setting{Protocol: protocol}
	for i, pol := range p.policies {
		at.Hashing = at.Hashing || pol.Hashing != nil && chosen[i] != nil && pol.Hashing(chosen[i])
	}
	for i, pol := range p.policies {
		if !pol.Attachment.Has(where) {
			continue
		}
		for _, text := range pol.IdleFields(chosen[i], at) {
			o.idle = append(o.idle, plan.Failure{Cell: pol.Named(chosen[i].Policies[0].Name), Err: errors.New(text), Awaited: true, By: pol.Names(chosen[i])})
		}
	}
}

// forService chooses the policies on a service of a proxy, and notes what they found and what is
// wrong with it.
func (p *Planner) forService(sources []mesh.Tags, service string, into picks, of *part) {
	for i, pol := range p.policies {
		if pol.Attachment.Has(policy.AtService) {
			into[i] = p.choose(pol, selection.OnConnection(p.room[:0], p.state, pol, policy.AtService, sources, service)...)
			of.failures = p.problem(of.failures, i, into[i])
		}
	}
}

// picks returns the selections for the proxies of a class as a whole.
func (c *class) picks(p *Planner) picks { return p.spread(c.proxy, nil) }

// spread fills picks with the selections for a whole proxy. It omits policies that are also
// chosen for narrower places.
func (p *Planner) spread(whole *policy.Choices, narrower func(policy.Attachment) bool) picks {
	out := p.blank(atPiece)
	if whole == nil {
		return out
	}
	for i, pol := range p.policies {
		if narrower == nil || !narrower(pol.Attachment) {
			out[i] = whole.At(i)
		}
	}
	return out
}

func aboutInbounds(a policy.Attachment) bool { return a.Has(policy.AtInbound) }

func aboutOutbounds(a policy.Attachment) bool {
	return a.Has(policy.AtOutbound | policy.AtDestination | policy.AtService)
}

// learned is a selection whose facts a policy may find differently later.
type learned struct {
	policy    int
	selection *policy.Selection
}

// unknown stands for facts that could not be found; they may be found later.
var unknown = []learned{{}}

// learn records a selection of a policy that looks at more than its own resources.
func (p *Planner) learn(known []learned, i int, s *policy.Selection) []learned {
	if s == nil || p.policies[i].Facts == nil {
		return known
	}
	return append(known, learned{i, s})
}

// learnAll records the selections of all policies.
func (p *Planner) learnAll(known []learned, chosen picks) []learned {
	if p.has.facts {
		for i, s := range chosen {
			known = p.learn(known, i, s)
		}
	}
	return known
}

// world returns what policies find facts in.
func (p *Planner) world() policy.World {
	w := policy.World{Outside: p.outside}
	if spec := p.state.Spec(); spec != nil {
		w.Mesh = spec.Spec
	}
	return w
}

// relearn causes a rebuild of everything for which a policy now finds other facts, and of
// nothing else.
func (p *Planner) relearn() {
	if !p.has.facts {
		return
	}
	asked := map[learned]bool{}
	differs := func(known []learned) bool {
		for _, l := range known {
			stale, ok := asked[l]
			if l.selection == nil {
				stale = true
			} else if !ok {
				stale = p.policies[l.policy].Facts(p.world(), l.selection.Policies) != l.selection.Facts
				asked[l] = stale
			}
			if stale {
				return true
			}
		}
		return false
	}
	for _, c := range p.classes {
		if differs(c.learned) {
			p.place(c)
		}
		if differs(c.passed) {
			p.mark(c)
		}
		for _, in := range c.inbounds {
			if differs(in.part.learned) {
				c.staleIn = true
				p.mark(c)
			}
		}
	}
	for _, r := range p.reaches {
		for _, o := range r.outbounds {
			if differs(o.part.learned) {
				p.touch(o)
			}
		}
		if differs(r.front.learned) {
			p.moved[r] = struct{}{}
		}
	}
}
