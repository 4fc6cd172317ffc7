package gatewayapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/openapi"
	"github.com/meshgate/meshgate/controlplane/store"
)

// maxWait bounds ?wait=. It is below the server's write timeout.
const maxWait = 30 * time.Second

// APIVersion is the version of the gateway whose administration API this one implements.
// Declarative tools choose the format of files and requests by it.
const APIVersion = "3.9.0"

// pathRevision is the name of a revision in a path.
const pathRevision = "revision"

// information lists the endpoints that belong to no collection.
func (a *API) information() []httpkit.Endpoint {
	enabled := answering(endpoint(http.MethodGet, "/plugins/enabled", "Plugins that instances can be made of", a.enabledPlugins), schemaDocument)
	if a.Entities {
		return []httpkit.Endpoint{enabled}
	}
	unready := answering(endpoint(http.MethodGet, "/status", "Whether the store answers", a.status), schemaDocument)
	unready.Contract.Answers[http.StatusServiceUnavailable] = schemaDocument
	revisions := endpoint(http.MethodGet, "/revisions/{"+pathRevision+"}", "How far proxies are with a revision", a.Revisions)
	revisions.Contract.Query = []httpkit.Parameter{{Name: "wait", Type: "string", Summary: "How long to wait for proxies, such as 10s; at most 30s"}}
	list := append(a.conditionEndpoints(), a.workspaceEndpoints()...)
	return append(list,
		answering(endpoint(http.MethodGet, "/", "What this is", a.root), schemaDocument),
		unready,
		enabled,
		answering(endpoint(http.MethodGet, "/endpoints", "Paths of this API", a.paths), schemaDocument),
		answering(endpoint(http.MethodGet, "/openapi.json", "This API as an OpenAPI document", a.openAPI), schemaDocument),
		answering(revisions, schemaDocument, http.StatusNotFound).Closed(),
		a.changesEndpoint(),
	)
}

// conditionEndpoints returns the endpoint for the conditions of the control plane, for
// callers that cannot reach its diagnostics port.
func (a *API) conditionEndpoints() []httpkit.Endpoint {
	if a.Conditions == nil {
		return nil
	}
	e := endpoint(http.MethodGet, "/conditions", "What is the matter with the control plane", a.Conditions)
	e.Auth, e.Where = access.Metadata, everything // they name nodes of every mesh and control plane
	e.Contract.Query = []httpkit.Parameter{
		{Name: "since", Type: "string", Summary: "The mark of an earlier answer: with wait, the answer comes when it has changed"},
		{Name: "wait", Type: "string", Summary: "How long to wait for a change, such as 10s; at most 30s"},
	}
	return []httpkit.Endpoint{answering(e, schemaConditions).Closed()}
}

// describeConditions returns the schema of its answer.
func describeConditions() *openapi.Schema {
	return openapi.Closed(schemas{
		"message": text().Says("ready, or what is missing for that"), "mark": text(), "conditions": openapi.List(openapi.For[health.Condition]()),
	}, "message", "conditions", "mark")
}

func (a *API) root(w http.ResponseWriter, r *http.Request) {
	available := map[string]bool{}
	for _, name := range gateway.PluginNames() {
		available[name] = true
	}
	reply(w, r, http.StatusOK, map[string]any{
		"product": "meshgate", "version": APIVersion, "meshgate_version": a.Version, "control_plane": a.scope(r),
		"plugins":       map[string]any{"available_on_server": available},
		"configuration": map[string]any{"database": a.database(), "router_flavor": "traditional_compatible"},
	})
}

// database tells tools whether entities can be written. They know "off" if everything comes
// from a file, and otherwise the one database that gateways of this kind have.
func (a *API) database() string {
	if a.ReadOnly != "" {
		return "off"
	}
	return "postgres"
}

func (a *API) paths(w http.ResponseWriter, r *http.Request) {
	var list []string
	for _, e := range a.Endpoints() {
		list = append(list, e.Pattern)
	}
	slices.Sort(list)
	reply(w, r, http.StatusOK, map[string]any{"data": slices.Compact(list)})
}

func (a *API) status(w http.ResponseWriter, r *http.Request) {
	var revision uint64
	err := a.Store.View(r.Context(), func(reader store.Reader) error {
		revision = reader.Revision()
		return nil
	})
	if err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
		reply(w, r, http.StatusServiceUnavailable, map[string]any{"database": map[string]any{"reachable": false}})
		return
	}
	reply(w, r, http.StatusOK, map[string]any{"database": map[string]any{"reachable": true}, "revision": revision})
}

func (a *API) enabledPlugins(w http.ResponseWriter, r *http.Request) {
	reply(w, r, http.StatusOK, map[string]any{"enabled_plugins": gateway.PluginNames()})
}

// Revisions serves GET /revisions/{revision}, here and in the mesh API. It answers at once
// or, with ?wait=10s, when nothing waits any more or the time is up.
func (a *API) Revisions(w http.ResponseWriter, r *http.Request) {
	bad := func(text string) {
		a.fail(w, r, &httpkit.BodyError{Status: http.StatusBadRequest, Message: text}, call{})
	}
	revision, err := strconv.ParseUint(r.PathValue(pathRevision), 10, 64)
	if err != nil {
		bad("revision must be a positive integer")
		return
	}
	var wait time.Duration
	if text := r.URL.Query().Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			bad("wait must be a duration between 0s and " + maxWait.String())
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	doc, err := a.Progress.Wait(ctx, revision, a.sees(r, access.Read))
	if err != nil {
		a.fail(w, r, named(err), call{})
		return
	}
	reply(w, r, http.StatusOK, doc)
}
