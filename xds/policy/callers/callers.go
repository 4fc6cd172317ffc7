// Package callers is what policies share that treat callers of an inbound differently.
package callers

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// maxSources is the maximum number of sources of a policy. Each source must be distinguished
// from all sources before it.
const maxSources = 64

// Check validates the sources of a policy. Any tags may select callers.
func Check(sources []mesh.Selector) policy.Violations {
	v := policy.Violations(mesh.CheckAny("sources", sources))
	if len(sources) > maxSources {
		v.Add("sources", "must have at most %d elements", maxSources)
	}
	return v
}

// unknown describes a policy whose callers cannot be told apart.
type unknown struct{ problem string }

// Problem implements [policy.Problematic].
func (u unknown) Problem() string { return u.problem }

// Facts are the facts of a policy with specs of type S. They report a problem if a chosen
// policy distinguishes callers but the mesh has no certificates that identify them.
func Facts[S any](sources func(*S) []mesh.Selector) func(policy.World, []*view.Policy) any {
	return FactsOf(func(spec any) bool {
		s, ok := spec.(*S)
		return ok && !everybody(sources(s))
	})
}

// FactsOf are the facts of a policy of which some specs distinguish callers. The problem names
// all of those that are chosen.
func FactsOf(distinguishes func(spec any) bool) func(policy.World, []*view.Policy) any {
	return func(w policy.World, chosen []*view.Policy) any {
		if w.Mesh != nil && w.Mesh.Authority() != nil {
			return nil
		}
		var idle []string
		for _, p := range chosen {
			if distinguishes(p.Spec) {
				idle = append(idle, p.Name)
			}
		}
		if len(idle) == 0 {
			return nil
		}
		return unknown{strings.Join(idle, ", ") + " is not applied: callers are known by their certificates, and the mesh has no mutual TLS"}
	}
}

func everybody(sources []mesh.Selector) bool {
	callers := draft.FromSources(sources)
	return len(callers) == 1 && callers[0] == nil
}
