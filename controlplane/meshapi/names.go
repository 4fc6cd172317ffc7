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
	out = append(out, c.checkName(s)...)
	if scoped {
		// The names of old meshes may follow laxer rules.
		for _, v := range model.ValidateName(s.meta.Mesh, false) {
			out = append(out, fault.Violation{Path: "mesh", Message: v.Message})
		}
	}
	return out
}

// checkName compares the name of a document with the rules. The global control plane has what a zone
// writes under a name that begins with the zone's, so what is new there has to leave room for that.
func (c collection) checkName(s *submission) []fault.Violation {
	vs := model.ValidateName(s.meta.Name, s.create)
	upwards := c.kind.Document.Written == model.ByZones || wrapped(c.kind)
	if len(vs) == 0 && s.create && c.api.Writes.Zone && upwards && len(c.api.Zone+"."+s.meta.Name) >= model.MaxName {
		vs = append(vs, fault.Violation{Path: "name", Message: "the length of the name must be shorter"})
	}
	return vs
}
