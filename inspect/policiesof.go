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
