package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
)

// adviceTimeout bounds how long a write waits for the view that shows it.
const adviceTimeout = time.Second

// Nowhere says of a policy on inbounds that a mesh was given which of its destinations
// no inbound has. That is no mistake, since services come in any order. But one that is
// mistyped protects nothing, and nothing else would say so.
func (p *Policies) Nowhere(ctx context.Context, kind *model.Kind, meshName string, spec any) []fault.Violation {
	s, ok := spec.(model.Selecting)
	if pol := p.find(kind); !ok || pol == nil || !kind.Document.Inbound {
		return nil
	}
	named := slices.DeleteFunc(slices.Clone(s.SelectedDestinations()), everybody)
	if len(named) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	m, release, err := p.mesh(ctx, meshName)
	if err != nil {
		return nil // the write has been made, and this is advice
	}
	defer release()
	var out []fault.Violation
	for _, tags := range named {
		if !slices.ContainsFunc(slices.Collect(m.Dataplanes()), func(d *view.Dataplane) bool { return chosenBy(tags, d) }) {
			out = append(out, fault.Violation{Path: mesh.Tags(tags).String(), Message: "no inbound of the mesh has this, so the policy is in force nowhere by it" + fault.Meant(tags[mesh.TagService], servicesOf(m))})
		}
	}
	return out
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

// chosenBy reports whether a selector matches an inbound of a dataplane.
func chosenBy(selector mesh.Tags, d *view.Dataplane) bool {
	return slices.ContainsFunc(d.Spec.Networking.Inbound, func(in mesh.Inbound) bool { return mesh.Matches(selector, in.Tags) })
}

func servicesOf(m *view.Mesh) (names []string) {
	for s := range m.Services() {
		names = append(names, s.Name)
	}
	return names
}
