package sidecar

import (
	"errors"

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

// awaitFront does what await does, for the listeners of a gateway with what is chosen for them.
func (p *Planner) awaitFront(r *reach, old *part) bool {
	waited := r.awaits != ""
	r.awaits, r.missing = "", false
	for _, l := range r.front.learned {
		f, ok := l.selection.Facts.(policy.Awaiting)
		if !ok || p.policies[l.policy].NeedsFilter && r.shape.Bare {
			continue
		}
		what, reading := f.Awaited()
		if what == "" {
			continue
		}
		if len(old.listeners) == 0 || waited {
			r.awaits = what
		}
		if !reading {
			continue
		}
		learned := r.front.learned
		r.front, r.missing = *old, len(old.listeners) == 0
		r.front.learned = learned
		r.front.failures = []plan.Failure{{Cell: gatewayPrefix + r.shape.Gateway.Service(), Err: errors.New(what), Kept: !r.missing}}
		return true
	}
	return false
}
