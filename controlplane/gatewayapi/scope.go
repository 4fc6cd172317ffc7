package gatewayapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// scopeKey is the key of a scope in the context of a request.
type scopeKey struct{}

// In returns a request that acts in another control plane than that of the API. path is that of the
// whole request: answers name others below it.
func In(r *http.Request, scope, path string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), scopeKey{}, placed{scope, path}))
}

// placed is where a request acts, and the path at which it came.
type placed struct{ scope, path string }

// scope is the control plane in which a request acts.
func (a *API) scope(r *http.Request) string {
	if p, ok := r.Context().Value(scopeKey{}).(placed); ok {
		return p.scope
	}
	return a.Scope
}

// pathOf is the path of a request as its sender knows it, without a slash at its end.
func pathOf(r *http.Request) string {
	path := r.URL.EscapedPath()
	if p, ok := r.Context().Value(scopeKey{}).(placed); ok {
		path = p.path
	}
	return strings.TrimSuffix(path, "/")
}

// here is where requests act unless their endpoint says otherwise: in the control plane of this
// API.
func (a *API) here(r *http.Request) access.Scope { return access.Scope{ControlPlane: a.scope(r)} }

// everything is where requests act that show or change what belongs to no control plane alone.
func everything(*http.Request) access.Scope { return access.Scope{} }

// atNode is where a request about a node acts: in the control plane of this API for its
// gateways. Any other node is for whoever has the right everywhere. It follows from the name, so
// the answer does not tell whether there is such a node.
func (a *API) atNode(r *http.Request) access.Scope {
	if mesh, controlPlane := nodes.ScopeOf(r.PathValue(pathNode)); mesh == "" && controlPlane == a.scope(r) {
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
	here := a.scope(r)
	return func(mesh, controlPlane string) bool { return mesh == "" && controlPlane == here }
}
