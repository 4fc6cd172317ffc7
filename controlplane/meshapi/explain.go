package meshapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/inspect/explain"
)

// Explain says what becomes of imagined requests; [explain.Meshes] implements it. It calls show
// with a document, and returns its error. Invalid names parameters, NotFound is about the source;
// [turns.ErrFull] means that there are too many requests.
type Explain interface {
	Explain(ctx context.Context, mesh string, q explain.Question, show func(doc any) error) error
}

// explanations returns the endpoint that explains a request. It is for administrators: it tells
// whether a token is good, and what proxies were sent.
func (a *API) explanations() []httpkit.Endpoint {
	if a.Explain == nil || !slices.Contains(a.Kinds, mesh.Dataplanes) {
		return nil
	}
	e := endpoint(http.MethodGet, prefixMesh+"explain", httpkit.Administrator, "Explain what becomes of an imagined request, and which resources decide", mediaJSON, a.explain)
	return []httpkit.Endpoint{does(e.About(mesh.Dataplanes.Name), shows(schemaExplained, explanationParams...), http.StatusNotFound)}
}

// explanationParams are the parameters of an explanation.
var explanationParams = []httpkit.Parameter{
	{Name: explain.ParamSource, Type: "string", Summary: "Required: the dataplane whose workload sends the request"},
	{Name: explain.ParamDestination, Type: "string", Summary: "Required: a service, or host:port as the workload connects to it"},
	{Name: explain.ParamMethod, Type: "string", Summary: "The method; GET if not given"},
	{Name: explain.ParamHost, Type: "string", Summary: "The host of the request; the destination if not given"},
	{Name: explain.ParamPath, Type: "string", Summary: "The path, with a query if it has one; / if not given. The answer does not repeat the query"},
	{Name: explain.ParamHeader, Type: "string", Summary: "A header as name:value; may be given more than once"},
	{Name: explain.ParamToken, Type: "string", Summary: "A bearer token. The header " + explain.HeaderToken + " keeps it out of logs on the way"},
}

// explain answers about an existing mesh. The answer is never cached, and no part of it shows the
// token.
func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		fail(w, r, opDecode, fault.Wrap(fault.Invalid, err, "the query is malformed"))
		return
	}
	name := r.PathValue(pathMesh)
	if err := a.Store.View(r.Context(), func(reader store.Reader) error { return meshExists(reader, name) }); err != nil {
		answer(w, r, opMesh, err)
		return
	}
	q, err := explain.Read(query, r.Header.Get(explain.HeaderToken),
		explain.ParamSource, explain.ParamDestination, explain.ParamMethod, explain.ParamHost, explain.ParamPath, explain.ParamHeader, explain.ParamToken)
	if err != nil {
		fail(w, r, opGet, err)
		return
	}
	present(w, r, opGet, func(show func(any) error) error { return a.Explain.Explain(r.Context(), name, q, show) })
}
