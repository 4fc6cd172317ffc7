package inspect

import (
	"cmp"
	"slices"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// find returns the policy of a kind, or nil for any other kind.
func (p *Policies) find(kind *model.Kind) *policy.Policy {
	for _, pol := range p.Policies {
		if pol.Kind.Name == kind.Name {
			return pol
		}
	}
	return nil
}

// deciding are the policies that have a say in where one is chosen: itself, the one that decides
// instead of it and, if it is about destinations, those that lead traffic elsewhere. Choosing all
// others for every proxy of a mesh would take many times as long.
func (p *Policies) deciding(pol *policy.Policy) []*policy.Policy {
	decider, led := pol.Decider(p.Policies), pol.Attachment.Has(policy.AtDestination)
	return slices.DeleteFunc(slices.Clone(p.Policies), func(o *policy.Policy) bool { return o != pol && o != decider && (!led || o.Split == nil) })
}

// find returns the resource of a policy by its name, nil if there is none.
func find(m *view.Mesh, pol *policy.Policy, name string) *view.Policy {
	for c := range m.Policies(pol.Kind) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// attachments are the places for which a policy is chosen.
func attachments(m *view.Mesh, places []selection.Place, pol *policy.Policy, name string) (out []Attachment) {
	for i := range places {
		for _, match := range places[i].Matches {
			if match.Policy == pol && has(match.Chosen, name) {
				at := attachment(&places[i])
				at.Errors = unapplied(m, &places[i], match, name)
				out = append(out, at)
			}
		}
	}
	return out
}

func inOrder(m *view.Mesh) []*view.Dataplane {
	return slices.SortedFunc(m.Dataplanes(), func(a, b *view.Dataplane) int { return cmp.Compare(a.ID, b.ID) })
}

func has(s *policy.Selection, name string) bool {
	return slices.ContainsFunc(s.Policies, func(c *view.Policy) bool { return c.Name == name })
}

// attachment shows a place. The listener of metrics is no service.
func attachment(at *selection.Place) Attachment {
	if at.Metrics {
		return Attachment{Type: at.Sort, Name: at.Name}
	}
	return Attachment{Type: at.Sort, Name: at.Name, Service: at.Service}
}

func meta(meshName string, c *view.Policy) Meta {
	return Meta{
		Type: c.Kind.Document.Type, Mesh: meshName, Name: c.Name, CreationTime: c.Created.UTC(), ModificationTime: c.Modified.UTC(),
		Labels: model.LabelsOf(c.Spec),
	}
}
