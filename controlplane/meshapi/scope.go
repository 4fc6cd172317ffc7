package meshapi

import (
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// placed says of each endpoint below a mesh that it acts there, unless it says itself where.
func placed(list []httpkit.Endpoint) []httpkit.Endpoint {
	for i := range list {
		if list[i].Where == nil && strings.HasPrefix(list[i].Pattern, prefixMesh) {
			list[i].Where = inMesh
		}
	}
	return list
}

// inMesh is where a request acts whose path names a mesh.
func inMesh(r *http.Request) access.Scope { return access.Scope{Mesh: r.PathValue(pathMesh)} }

// ofMesh is where a request about a mesh itself acts.
func ofMesh(r *http.Request) access.Scope { return access.Scope{Mesh: r.PathValue(pathName)} }

// somewhere is where a request acts that is judged again when its mesh is known, or of which
// only what the caller may see is shown.
func somewhere(*http.Request) access.Scope { return access.Scope{Somewhere: true} }

// may reports whether the caller of a request has a right in a scope.
func (a *API) may(r *http.Request, right access.Right, in access.Scope) bool {
	return a.Rules.Decide(httpkit.CallerOf(r), right, in).Allowed
}

// seen returns which meshes the caller of a request may see. It is nil if these are all.
func (a *API) seen(r *http.Request) func(mesh string) bool {
	if a.may(r, access.Read, access.Scope{}) {
		return nil
	}
	return func(name string) bool { return a.may(r, access.Read, access.Scope{Mesh: name}) }
}

// rights returns what reading and writing the resources of a kind need.
func (c collection) rights() (read, write access.Right) {
	switch {
	case c.kind.Document.AdminOnly:
		return access.AdminResources, access.AdminResources
	case c.kind == mesh.Meshes:
		return access.Read, access.Own
	}
	return access.Read, access.Write
}

// scope is the mesh about which a request for a resource of the kind is.
func (c collection) scope(r *http.Request) access.Scope {
	if c.kind == mesh.Meshes {
		return ofMesh(r)
	}
	return inMesh(r)
}

// encodings are the two forms in which a resource is shown.
type encodings struct {
	document func(*model.Resource) ([]byte, error)
	spec     func(*model.Kind, any) ([]byte, error)
}

// encodingsFor returns the forms for the caller of a request: with secrets if the caller may read
// those of the mesh to which the resource belongs, else without.
func (a *API) encodingsFor(r *http.Request, res *model.Resource) encodings {
	in := access.Scope{Mesh: res.Scope}
	if res.Kind == mesh.Meshes {
		in.Mesh = res.Name
	}
	if a.may(r, access.AdminResources, in) {
		return encodings{model.EncodeDocument, func(_ *model.Kind, spec any) ([]byte, error) { return model.EncodeSpec(spec) }}
	}
	return encodings{model.ConcealDocument, model.ConcealSpec}
}
