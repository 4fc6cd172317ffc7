package meshapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// overviews returns the endpoints that show dataplanes together with their insights. Each has
// two paths; the older one has a plus.
func (a *API) overviews() []httpkit.Endpoint {
	if a.Insights == nil || !slices.Contains(a.Kinds, mesh.Dataplanes) {
		return nil
	}
	c := collection{a, mesh.Dataplanes}
	path := mesh.Dataplanes.Path
	get := func(pattern, summary string, h http.HandlerFunc, answered httpkit.Contract) httpkit.Endpoint {
		return does(endpoint(http.MethodGet, pattern, access.Read, summary, mediaJSON, named(h)), answered, http.StatusNotFound).About(c.kind.Name)
	}
	page, one := shows(schemaOverview+suffixList, c.parameters()...), shows(schemaOverview)
	var list []httpkit.Endpoint
	for _, prefix := range []string{prefixAll, prefixMesh} {
		for _, suffix := range []string{"+insights", "/_overview"} {
			pattern := prefix + path + suffix
			e := get(pattern, "List dataplanes with what they report", c.listOf(pattern, a.overviewItem), page)
			if prefix == prefixAll {
				e.Where = somewhere
			}
			list = append(list, e)
		}
	}
	return append(list,
		get(prefixMesh+path+"+insights/{"+pathName+"}", "Read a dataplane with what it reports", c.overview, one),
		get(prefixMesh+path+"/{"+pathName+"}/_overview", "Read a dataplane with what it reports", c.overview, one),
	)
}

// overview shows a dataplane; a missing insight is shown as {}.
func (c collection) overview(w http.ResponseWriter, r *http.Request) {
	res, err := c.read(r)
	if err != nil {
		answer(w, r, opGet, err)
		return
	}
	doc, err := c.api.overviewOf(r.Context(), res, struct{}{})
	if err != nil {
		fail(w, r, opGet, err)
		return
	}
	reply(w, r, http.StatusOK, doc)
}

// overviewItem shows a dataplane in a list, in which a missing insight is left out.
func (a *API) overviewItem(r *http.Request, res *model.Resource) (any, error) {
	return a.overviewOf(r.Context(), res, nil)
}

// dataplaneOverview is a dataplane with the insight of its proxy.
type dataplaneOverview struct {
	Type             string            `json:"type"`
	Mesh             string            `json:"mesh"`
	Name             string            `json:"name"`
	CreationTime     time.Time         `json:"creationTime"`
	ModificationTime time.Time         `json:"modificationTime"`
	Labels           map[string]string `json:"labels,omitempty"`
	Dataplane        json.RawMessage   `json:"dataplane"`
	Insight          any               `json:"dataplaneInsight,omitempty"`
	// Errors says why the proxy does not have the configuration that it should have.
	Errors []string `json:"errors,omitempty"`
}

func (a *API) overviewOf(ctx context.Context, res *model.Resource, absent any) (any, error) {
	spec, err := model.EncodeSpec(res.Spec)
	if err != nil {
		return nil, err
	}
	insight, ok, err := a.Insights.Read(ctx, res.Scope, res.Name)
	if err != nil {
		return nil, err
	}
	if !ok {
		insight = absent
	}
	o := dataplaneOverview{
		Type: "DataplaneOverview", Mesh: res.Scope, Name: res.Name, CreationTime: res.Created.UTC(), ModificationTime: res.Modified.UTC(),
		Labels: model.LabelsOf(res.Spec), Dataplane: spec, Insight: insight,
	}
	if a.Problems != nil {
		o.Errors = a.Problems.Of(res.Scope, res.Name)
	}
	return o, nil
}
