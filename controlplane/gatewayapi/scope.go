package gatewayapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// scopeKey is the key of a scope in the context of a request.
type scopeKey struct{}

// In returns a request that acts in another control plane than that of the API.
func In(r *http.Request, scope string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), scopeKey{}, scope))
}

// unlistedKey is the key of the mark of [Unlisted] in the context of a request.
type unlistedKey struct{}

// Unlisted returns a request of a tool that does not read collections which are [Collection.Unlisted].
func Unlisted(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), unlistedKey{}, true))
}

// twin is the key of what a replacement is of although it names another id: it comes from a tool that
// could not know the id. Nothing that is not below its owner is replaced in this way, and nothing whose key the path
// names: it would be renamed.
func (p place) twin(r *http.Request, a admit.Address, given map[string]any) string {
	if marked, _ := r.Context().Value(unlistedKey{}).(bool); !marked || !p.collection.Unlisted || a.Under == nil || r.Method != http.MethodPut || !model.IsUUID(a.Key) {
		return ""
	}
	key, _ := given[a.Kind.Schema.Key].(string)
	return key
}

// placed is where a request acts that [In] has returned.
func placed(r *http.Request) (scope string, ok bool) {
	scope, ok = r.Context().Value(scopeKey{}).(string)
	return scope, ok
}

// scope is the control plane in which a request acts.
func (a *API) scope(r *http.Request) string {
	if scope, ok := placed(r); ok {
		return scope
	}
	return a.Scope
}

// pathOf is the path of a request, without a slash at its end.
func pathOf(r *http.Request) string { return strings.TrimSuffix(r.URL.EscapedPath(), "/") }

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
