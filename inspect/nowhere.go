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

// adviceTimeout bounds how long a write waits for the view that shows it.
const adviceTimeout = time.Second

// leading are the specs of policies that lead traffic to places of their own choice.
type leading interface {
	// LeadsTo are the tags of those places.
	LeadsTo() []mesh.Tags
}

// Nowhere says of a policy that a mesh was given which of its selectors select nobody.
// That is no mistake, since services come in any order. But one that is mistyped protects
// nothing, or lets nobody in, and nothing else would say so. [Policies.Warnings] says the
// same of all policies, later.
func (p *Policies) Nowhere(ctx context.Context, kind *model.Kind, meshName string, spec any) (out []fault.Violation) {
	pol := p.find(kind)
	if pol == nil || !named(spec) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	// The write has been made, and this is advice: whoever gets none asks later.
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

// everybody reports whether a selector names nothing that could be mistyped: it waits for
// whoever comes.
func everybody(selector map[string]string) bool {
	for _, v := range selector {
		if v != mesh.AnyValue {
			return false
		}
	}
	return true
}

// judge says which selectors of a policy select nobody.
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
	inbound := pol.Kind.Document.Inbound
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

// reached reports whether a service is there for callers, or named by an outbound; any is.
func (c *census) reached(service string) bool {
	return service == "" || service == mesh.AnyValue || c.outbounds[service] || slices.Contains(c.reachable, service)
}

// member reports whether the certificate of some proxy has all tags of a selector: those
// of all inbounds of a proxy are in its one certificate.
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
