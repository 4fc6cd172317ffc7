package gatewayapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// here is where requests act unless their endpoint says otherwise: in the control plane of this
// API.
func (a *API) here(*http.Request) access.Scope { return access.Scope{ControlPlane: a.Scope} }

// everything is where requests act that show or change what belongs to no control plane alone.
func everything(*http.Request) access.Scope { return access.Scope{} }

// atNode is where a request about a node acts: in the control plane of this API for its
// gateways. Any other node is for whoever has the right everywhere. It follows from the name, so
// the answer does not tell whether there is such a node.
func (a *API) atNode(r *http.Request) access.Scope {
	if mesh, controlPlane := nodes.ScopeOf(r.PathValue(pathNode)); mesh == "" && controlPlane == a.Scope {
		return a.here(r)
	}
	return everything(r)
}

// sees returns which meshes and control planes the caller of a request sees who has a right in
// the control plane of this API: all, or only this one.
func (a *API) sees(r *http.Request, right access.Right) func(mesh, controlPlane string) bool {
	if a.Rules.Decide(httpkit.CallerOf(r), right, access.Scope{}).Allowed {
		return func(string, string) bool { return true }
	}
	return func(mesh, controlPlane string) bool { return mesh == "" && controlPlane == a.Scope }
}
