package cloudapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// entities are the endpoints of the entities of a control plane below a path that names it. They are
// those of the administration API, and so are their documents and their errors.
func (p planes) entities(below string) []httpkit.Endpoint {
	list := make([]httpkit.Endpoint, len(p.api.Planes.Entities))
	for i, e := range p.api.Planes.Entities {
		next, changes := e.Handler, e.Method != http.MethodGet && !strings.HasPrefix(e.Pattern, "/schemas/")
		e.Pattern, e.Where = below+e.Pattern, inPlane
		e.Handler = func(w http.ResponseWriter, r *http.Request) {
			err := p.view(r, func(_ store.Reader, plane *model.Resource) error {
				if changes {
					return p.writable(plane)
				}
				return nil
			})
			if err != nil {
				p.api.fail(w, r, err, p.Collection)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxEntity)
			next(w, p.api.Planes.Enter(r, p.scope(r)))
		}
		list[i] = e
	}
	return list
}

// maxEntity bounds the body of an entity.
const maxEntity = 4 << 20

// writable refuses to write to a group, and to what others write. Source: requirement "Migration
// rules" 2.
func (p planes) writable(plane *model.Resource) error {
	refusal := &problem{Status: http.StatusForbidden, Title: titlePermission}
	switch c := plane.Spec.(*cloud.ControlPlane); {
	case c.IsGroup():
		refusal.Detail = fmt.Sprintf("operation not permitted: %q is a group of control planes and has no entities of its own: write to one of its members", c.Name)
	case plane.Name == cloud.DefaultID && p.api.Planes.Declared != "":
		refusal.Detail = p.api.Planes.Declared
	default:
		return nil
	}
	return refusal
}
