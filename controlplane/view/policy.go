package view

import (
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Policy is one policy resource in a view. It is immutable. A changed resource is a new
// Policy, so a comparison of pointers shows whether anything has changed.
type Policy struct {
	Kind    *model.Kind
	Name    string
	Created time.Time
	// Modified is the time of its last write.
	Modified time.Time
	// Version counts the writes of the resource.
	Version uint64
	// Spec implements model.Selecting.
	Spec any
	// Sources and Destinations are the tag sets that it selects; Sources is nil for policies
	// without sources.
	Sources      []mesh.Tags
	Destinations []mesh.Tags
	// Targets are the tag sets of the proxies that it is for; nil for policies that do not say
	// it ([model.Targeting]).
	Targets []mesh.Tags
	// Certificates are what the listeners of a gateway present, by the names of the secrets; nil
	// for everything else.
	Certificates map[string]mesh.ServerCertificate
}

// Selectors returns the tag sets by which it is chosen for an inbound or for a whole proxy.
func (p *Policy) Selectors() []mesh.Tags {
	if p.Targets != nil {
		return p.Targets
	}
	return p.Destinations
}

// Clients returns the tag sets of the proxies whose connections it is about.
func (p *Policy) Clients() []mesh.Tags {
	if p.Targets != nil {
		return p.Targets
	}
	return p.Sources
}

// policyOf makes a policy from a resource. It fails only for a kind that was registered as a
// policy and is not one.
func policyOf(res *model.Resource) (*Policy, error) {
	s, ok := res.Spec.(model.Selecting)
	if !ok {
		return nil, fmt.Errorf("kind %s is no policy: its spec selects nothing", res.Kind.Name)
	}
	p := &Policy{Kind: res.Kind, Name: res.Name, Created: res.Created, Modified: res.Modified, Version: res.Version, Spec: res.Spec}
	p.Select(s)
	return p, nil
}

// Select sets the tag sets to those that a spec selects.
func (p *Policy) Select(spec model.Selecting) {
	p.Sources, p.Destinations = tagSets(spec.SelectedSources()), tagSets(spec.SelectedDestinations())
	if t, ok := spec.(model.Targeting); ok {
		p.Targets = tagSets(t.SelectedTargets())
	}
}

// tagSets converts tag sets. It keeps nil, which means that the policy has no such side.
func tagSets(in []map[string]string) []mesh.Tags {
	if in == nil {
		return nil
	}
	out := make([]mesh.Tags, len(in))
	for i, m := range in {
		out[i] = m
	}
	return out
}
