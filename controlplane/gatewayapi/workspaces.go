package gatewayapi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// Gateways of this kind keep entities in workspaces, and declarative tools that are told one put its name
// before every path. Here is one workspace, so that its name means nothing else than no name.
const (
	workspace = "default"
	// workspaceID is the same everywhere, as no workspace is stored.
	workspaceID    = "5a461add-47f2-56e3-8651-f9a6db33c38d"
	pathWorkspace  = "workspace"
	workspacesPath = "/workspaces"

	schemaWorkspace  = "workspace"
	schemaWorkspaces = "workspace_page"
)

// inWorkspace takes the name of the workspace from the beginning of paths. It comes before everything
// that looks at a path: if only the router took it away, a decision before it could be about another path than
// that of the handler. It takes it away once, and only as it is written plainly: any other spelling is
// a path that does not exist.
func inWorkspace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/"+workspace)
		if !ok || rest != "" && rest[0] != '/' {
			next.ServeHTTP(w, r)
			return
		}
		if rest == "" {
			rest = "/"
		}
		clone, u := *r, *r.URL
		u.Path, u.RawPath = cmp.Or(strings.TrimPrefix(u.Path, "/"+workspace), "/"), rest
		clone.URL = &u
		next.ServeHTTP(w, &clone)
	})
}

// unshadowed panics if an endpoint is where the paths of the workspace are: nobody could reach it.
func unshadowed(endpoints []httpkit.Endpoint) []httpkit.Endpoint {
	for _, e := range endpoints {
		first, _, _ := strings.Cut(strings.TrimPrefix(e.Pattern, "/"), "/")
		if first == workspace || strings.HasPrefix(first, "{") {
			panic("gatewayapi: no request reaches an endpoint below the workspace: " + e.Pattern)
		}
	}
	return endpoints
}

// workspaceEndpoints let tools find out which workspaces there are.
func (a *API) workspaceEndpoints() []httpkit.Endpoint {
	list := answering(endpoint(http.MethodGet, workspacesPath, "List workspaces: there is one", a.workspaces), schemaWorkspaces)
	one := answering(endpoint(http.MethodGet, workspacesPath+"/{"+pathWorkspace+"}", "Read a workspace", a.workspace), schemaWorkspace, http.StatusNotFound)
	return []httpkit.Endpoint{list, one}
}

// theWorkspace is the one that there is, with the members that its peers have.
func theWorkspace() map[string]any {
	return map[string]any{
		"id": workspaceID, "name": workspace, "comment": nil, "created_at": 0,
		"config": map[string]any{"portal": false}, "meta": map[string]any{"color": nil, "thumbnail": nil},
	}
}

// describeWorkspace returns the schema of a workspace.
func describeWorkspace() *openapi.Schema {
	return openapi.Closed(schemas{
		"id": identifier(), "name": text(), "comment": text().OrNull(), "created_at": openapi.Count(),
		"config": openapi.Of(openapi.Object), "meta": openapi.Of(openapi.Object),
	}, "id", "name", "comment", "created_at", "config", "meta")
}

// pageOfWorkspaces returns the schema of a list that is always complete.
func pageOfWorkspaces() *openapi.Schema {
	return openapi.Closed(schemas{"data": openapi.List(openapi.To(schemaWorkspace)), "next": text().OrNull()}, "data", "next")
}

func (a *API) workspaces(w http.ResponseWriter, r *http.Request) {
	reply(w, r, http.StatusOK, map[string]any{"data": []any{theWorkspace()}, "next": nil})
}

func (a *API) workspace(w http.ResponseWriter, r *http.Request) {
	if key := r.PathValue(pathWorkspace); key != workspace && key != workspaceID {
		httpkit.NotFound(w, r)
		return
	}
	reply(w, r, http.StatusOK, theWorkspace())
}
