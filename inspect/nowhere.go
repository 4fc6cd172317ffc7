package inspect

import (
	"context"
	"maps"
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
	_ = p.With(ctx, meshName, func(m *view.Mesh) error {
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
	if !ok {
		return false
	}
	t, targeting := spec.(model.Targeting)
	return some(s.SelectedSources()) || some(s.SelectedDestinations()) || targeting && some(t.SelectedTargets())
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
	clients, callers, here, called := sidesOf(pol, s)
	for _, tags := range clients {
		if !everybody(tags) && !matched(tags, c.sources) {
			warn(tags, c.callers, "no proxy of the mesh has this, so the policy is in force nowhere by it")
		}
	}
	for _, tags := range callers {
		if !everybody(tags) && !c.member(tags) {
			warn(tags, c.callers, "no proxy of the mesh has this, so the policy is about nobody by it")
		}
	}
	for _, tags := range here {
		if tags[mesh.ListenerOf] != "" {
			out = c.listening(out, tags)
		} else if !everybody(tags) && !matched(tags, c.inbounds) {
			warn(tags, c.served, "no inbound of the mesh has this, so the policy is in force nowhere by it")
		}
	}
	for _, tags := range called {
		if !everybody(tags) && !c.reached(mesh.Tags(tags).Service()) {
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

// listening appends what is wrong with a target that is listeners of a gateway, if anything is.
func (c *census) listening(to []fault.Violation, target mesh.Tags) []fault.Violation {
	if matched(target, c.listeners) {
		return to
	}
	v := fault.Violation{Path: listenersOf(target), Message: "no gateway of the mesh has such a listener, so the policy is in force nowhere by it"}
	if name := target[mesh.ListenerOf]; !slices.Contains(c.gateways, name) {
		v.Message += fault.Meant(name, c.gateways)
	}
	return append(to, v)
}

// listenersOf is how a target that is listeners of a gateway is shown.
func listenersOf(target mesh.Tags) string {
	tags := maps.Clone(target)
	delete(tags, mesh.ListenerOf)
	if len(tags) == 0 {
		return "MeshGateway " + target[mesh.ListenerOf]
	}
	return "MeshGateway " + target[mesh.ListenerOf] + " " + tags.String()
}

// sidesOf returns what a spec selects: the proxies whose connections it is about, those who
// call inbounds, the inbounds, and what is called.
func sidesOf(pol *policy.Policy, s model.Selecting) (clients, callers, here, called []map[string]string) {
	from, to := s.SelectedSources(), s.SelectedDestinations()
	t, targeting := s.(model.Targeting)
	switch inbound := pol.Kind.Document.Inbound; {
	case pol.Kind.Document.Proxy && !targeting:
		return to, nil, nil, nil
	case targeting && inbound:
		return nil, from, t.SelectedTargets(), to
	case targeting:
		return t.SelectedTargets(), from, nil, to
	case inbound:
		return nil, from, to, nil
	}
	return from, nil, nil, to
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
	for _, tags := range c.proxies {
		if carried(selector, tags) {
			return true
		}
	}
	return false
}

// carried reports whether a certificate with some tags has all tags of a selector.
func carried(selector mesh.Tags, tags map[string]map[string]bool) bool {
	for key, want := range selector {
		values, there := tags[key]
		if !there || want != mesh.AnyValue && !values[want] {
			return false
		}
	}
	return true
}
