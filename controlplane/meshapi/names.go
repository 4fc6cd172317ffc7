package meshapi

import (
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// checkMeta compares the names and labels of a document with its path and the rules. It
// reports in the order that clients know: name, type, mesh, labels, and the forms of name and
// mesh.
func (c collection) checkMeta(s *submission, scope, name string) []fault.Violation {
	var out []fault.Violation
	differ := func(path string) {
		out = append(out, fault.Violation{Path: path, Message: path + " from the URL has to be the same as in body"})
	}
	d, scoped := c.kind.Document, c.kind.Scoping == model.Mesh
	if s.meta.Name != name {
		differ("name")
	}
	if s.meta.Type != d.Type && !slices.Contains(d.Aliases, s.meta.Type) {
		differ("type")
	}
	if scoped && s.meta.Mesh != scope {
		differ("mesh")
	}
	out = append(out, model.ValidateLabels(s.meta.Labels, s.meta.Mesh)...)
	if zone, ok := s.meta.Labels[mesh.LabelZone]; ok && c.api.Zone != "" && zone != c.api.Zone {
		out = append(out, fault.Violation{Path: fmt.Sprintf("labels[%q]", mesh.LabelZone), Message: fmt.Sprintf("must be the local zone %q", c.api.Zone)})
	}
	out = append(out, model.ValidateName(s.meta.Name, s.create)...)
	if scoped {
		// The names of old meshes may follow laxer rules.
		for _, v := range model.ValidateName(s.meta.Mesh, false) {
			out = append(out, fault.Violation{Path: "mesh", Message: v.Message})
		}
	}
	return out
}
