package sidecar

import (
	"errors"
	"slices"

	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
)

// guards are the policies on each listener of a gateway, in the order of its outbounds; nil for
// none.
func (p *Planner) guards(r *reach) (out []*policy.Choices, err error) {
	err = guard(func() {
		made := make([]*policy.Choices, len(r.outbounds))
		for i, o := range r.outbounds {
			made[i] = p.only(p.forListener(r, o.listener), func(pol *policy.Policy) bool { return pol.ListenerRoutes != nil })
		}
		out = made
	})
	return out, err
}

// guarded notes what the policies on a listener of a gateway found, and which cannot take effect.
func (p *Planner) guarded(r *reach, o *outbound) {
	for i, pol := range p.policies {
		s := o.guards.At(i)
		if s == nil {
			continue
		}
		text := pol.IdleOn(o.listener.Spec.Protocol)
		if text == "" { // otherwise what it finds makes no difference
			r.front.learned = p.learn(r.front.learned, i, s)
		}
		switch {
		case text != "":
		case pol.NeedsFilter && r.shape.Bare:
			text = "the proxy lacks the filter: every request is refused"
		default:
			text = policy.Problem(s.Facts)
		}
		if text != "" {
			r.front.failures = append(r.front.failures, plan.Failure{
				Cell: pol.Named(s.Policies[0].Name) + " on " + o.cell(), Err: errors.New(text), By: pol.Names(s),
			})
		}
	}
}

// shown is what a listener of a gateway had the last time that nothing was being read for it.
type shown struct {
	hosts  []builtinHost
	guards *policy.Choices
}

// awaitFront does what await does, for the listeners of a gateway with what is chosen for them. It
// reports whether the gateway as a whole has to wait, because it has no listener yet. Otherwise only the
// hosts of listeners wait for which something is being read; see hostsOf.
func (p *Planner) awaitFront(r *reach, old *part) bool {
	waited := r.awaits != ""
	r.awaits, r.missing = "", false
	for _, o := range r.outbounds {
		what, reading := p.awaitedAt(r, o)
		if what != "" && (len(old.listeners) == 0 || waited) {
			r.awaits = what
		}
		if o.waits = reading; !reading {
			o.shown = shown{o.hosts, o.guards}
			continue
		}
		if len(old.listeners) == 0 {
			learned := r.front.learned
			r.front, r.missing = *old, true
			r.front.learned = learned
			r.front.failures = []plan.Failure{{Cell: gatewayPrefix + r.shape.Gateway.Service(), Err: errors.New(what)}}
			return true
		}
		r.front.failures = append(r.front.failures, plan.Failure{Cell: o.cell(), Err: errors.New(what), Kept: true})
	}
	return false
}

// hostsOf lists the hosts of listeners that share a table. One that waits keeps its last policies at hosts
// that are as they were. All others of its hosts are closed: a route that is new may need the policies
// that are not in force yet.
func hostsOf(with []*outbound) (out []namedHosts) {
	for _, o := range with {
		for _, h := range o.hosts {
			switch {
			case !o.waits:
				out = append(out, namedHosts{builtinHost: h, guards: o.guards})
			case slices.Contains(o.shown.hosts, h):
				out = append(out, namedHosts{builtinHost: h, guards: o.shown.guards})
			default:
				out = append(out, namedHosts{builtinHost: builtinHost{name: h.name}, closed: true})
			}
		}
	}
	return out
}

// awaitedAt returns what the hosts of a listener wait for, or an empty text, and whether it is being
// read.
func (p *Planner) awaitedAt(r *reach, o *outbound) (what string, reading bool) {
	for i, pol := range p.policies {
		s := o.guards.At(i)
		if s == nil || pol.IdleOn(o.listener.Spec.Protocol) != "" || pol.NeedsFilter && r.shape.Bare {
			continue
		}
		f, ok := s.Facts.(policy.Awaiting)
		if !ok {
			continue
		}
		if text, is := f.Awaited(); text != "" {
			what, reading = text, is
		}
		if reading {
			break
		}
	}
	return what, reading
}
