package gatewayapi

import (
	"context"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/inspect/explain"
)

// Explain says what becomes of imagined requests at gateways; [explain.Gateways] implements it.
// Invalid names parameters, NotFound is about the gateway; [turns.ErrFull] means that there are
// too many requests.
type Explain interface {
	Explain(ctx context.Context, q explain.Question) (*explain.Explanation, error)
}

// explanationParams are the parameters of an explanation.
var explanationParams = []httpkit.Parameter{
	{Name: explain.ParamHost, Type: "string", Summary: "Required: the host of the request, with a port if the client sends one"},
	{Name: explain.ParamPath, Type: "string", Summary: "The path, with a query if it has one; / if not given. The answer does not repeat the query"},
	{Name: explain.ParamMethod, Type: "string", Summary: "The method; GET if not given"},
	{Name: explain.ParamScheme, Type: "string", Summary: "http (if not given) or https"},
	{Name: explain.ParamHeader, Type: "string", Summary: "A header as name:value; may be given more than once"},
	{Name: explain.ParamToken, Type: "string", Summary: "A bearer token. The header " + explain.HeaderToken + " keeps it out of logs on the way"},
	{Name: explain.ParamGateway, Type: "string", Summary: "The node whose configuration is followed; the first one if not given"},
}

// explanations returns the endpoint that explains a request.
func (a *API) explanations() []httpkit.Endpoint {
	if a.Explain == nil {
		return nil
	}
	e := administered(endpoint(http.MethodGet, "/gateway-explain", "Explain what becomes of an imagined request, and which entities decide", a.explain))
	e.Contract.Query = explanationParams
	return []httpkit.Endpoint{answering(e, schemaExplained, http.StatusBadRequest, http.StatusNotFound).Closed()}
}

func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	allowed := make([]string, len(explanationParams))
	for i, p := range explanationParams {
		allowed[i] = p.Name
	}
	q, err := explain.Read(r.URL.Query(), r.Header.Get(explain.HeaderToken), allowed...) // the router has checked that it can be read
	var doc *explain.Explanation
	if err == nil {
		doc, err = a.Explain.Explain(r.Context(), q)
	}
	if err != nil {
		a.fail(w, r, badOption(named(err)), call{})
		return
	}
	reply(w, r, http.StatusOK, doc)
}
