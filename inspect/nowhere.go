package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// adviceTimeout is how long a write may wait for the view that shows it.
const adviceTimeout = time.Second

// leading is implemented by specs of policies that lead traffic to places of their own
// choice.
type leading interface {
	// LeadsTo returns the tags of those places.
	LeadsTo() []mesh.Tags
}

// Nowhere returns which selectors of a newly written policy select nobody. This need not be a
// mistake, because services come in any order. But a mistyped selector protects nothing, or
// lets nobody in, and nothing else would report it. [Policies.Warnings] later reports the same
// for all policies.
func (p *Policies) Nowhere(ctx context.Context, kind *model.Kind, meshName string, spec any) (out []fault.Violation) {
	pol := p.find(kind)
	if pol == nil || !named(spec) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	// The write has succeeded, and this is only advice: without it, users can ask later.
	_ = p.choose(ctx, meshName, func(m *view.Mesh) error {
		out = take(m).judge(pol, spec)
		return nil
	})
	return out
}

// named reports whether a spec selects something that could be mistyped.
func named(spec any) bool {
	some := func(list []map[string]string) bool {
		return slices.ContainsFunc(list, func(s map[string]string) bool { return !everybody(s) })
	}
	if l, ok := spec.(leading); ok && len(l.LeadsTo()) > 0 {
		return true
	}
	s, ok := spec.(model.Selecting)
	return ok && (some(s.SelectedSources()) || some(s.SelectedDestinations()))
}

// everybody reports whether a selector names nothing that could be mistyped: it selects any
// value.
func everybody(selector map[string]string) bool {
	for _, v := range selector {
		if v != mesh.AnyValue {
			return false
		}
	}
	return true
}

// judge returns which selectors of a policy select nobody.
func (c *census) judge(pol *policy.Policy, spec any) (out []fault.Violation) {
	s, ok := spec.(model.Selecting)
	if !ok {
		return nil
	}
	warn := func(tags mesh.Tags, known []string, text string) {
		v := fault.Violation{Path: tags.String(), Message: text}
		if s := tags.Service(); !slices.Contains(known, s) {
			v.Message += fault.Meant(s, known)
		}
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	inbound, whole := pol.Kind.Document.Inbound, pol.Kind.Document.Proxy
	for _, tags := range s.SelectedSources() {
		switch {
		case everybody(tags):
		case inbound && !c.member(tags):
			warn(tags, c.callers, "no proxy of the mesh has this, so the policy is about nobody by it")
		case !inbound && !matched(tags, c.sources):
			warn(tags, c.callers, "no proxy of the mesh has this, so the policy is in force nowhere by it")
		}
	}
	for _, tags := range s.SelectedDestinations() {
		switch {
		case everybody(tags):
		case whole:
			if !matched(tags, c.sources) {
				warn(tags, c.callers, "no proxy of the mesh has this, so the policy is in force nowhere by it")
			}
		case inbound && !matched(tags, c.inbounds):
			warn(tags, c.served, "no inbound of the mesh has this, so the policy is in force nowhere by it")
		case !inbound && !c.reached(mesh.Tags(tags).Service()):
			warn(tags, c.reachable, "no inbound of the mesh serves this and no outbound names it, so the policy is in force nowhere by it")
		}
	}
	if l, ok := spec.(leading); ok {
		for _, tags := range l.LeadsTo() {
			if !everybody(tags) && !matched(tags, c.inbounds) && !matched(tags, c.beyond) {
				warn(tags, c.reachable, "no inbound of the mesh has this, so what is led here is not served")
			}
		}
	}
	return out
}

// matched reports whether a selector matches one of some tag sets.
func matched(selector mesh.Tags, sets map[string]mesh.Tags) bool {
	for _, tags := range sets {
		if mesh.Matches(selector, tags) {
			return true
		}
	}
	return false
}

// reached reports whether callers can reach a service, or an outbound names it. The service
// * always is.
func (c *census) reached(service string) bool {
	return service == "" || service == mesh.AnyValue || c.outbounds[service] || slices.Contains(c.reachable, service)
}

// member reports whether the certificate of some proxy has all tags of a selector. The one
// certificate of a proxy contains the tags of all its inbounds.
func (c *census) member(selector mesh.Tags) bool {
next:
	for _, tags := range c.proxies {
		for key, want := range selector {
			values, there := tags[key]
			if !there || want != mesh.AnyValue && !values[want] {
				continue next
			}
		}
		return true
	}
	return false
}
