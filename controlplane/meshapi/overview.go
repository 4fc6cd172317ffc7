package meshapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// overview says how the resources of a kind are shown together with what is known about them,
// and how that is shown alone.
type overview struct {
	of *model.Kind
	// older is the collection of overviews that older clients know; newer ones ask for _overview
	// below that of the kind.
	older string
	// alone is the collection of what is known.
	alone string
	// part and insight are the members of an overview.
	part, insight string
	// mesh is what overviews name as their mesh although the kind has none.
	mesh string
}

// overviewed lists the kinds about whose resources something may be known.
var overviewed = []overview{
	{of: mesh.Dataplanes, older: "dataplanes+insights", alone: "dataplane-insights", part: "dataplane", insight: "dataplaneInsight"},
	{of: mesh.Zones, older: "zones+insights", alone: "zone-insights", part: "zone", insight: "zoneInsight", mesh: mesh.Default},
	{of: mesh.ZoneIngresses, older: "zoneingresses+insights", alone: "zone-ingress-insights", part: "zoneIngress", insight: "zoneIngressInsight"},
	{of: mesh.ZoneEgresses, older: "zoneegressoverviews", alone: "zoneegressinsights", part: "zoneEgress", insight: "zoneEgressInsight"},
}

// The types of both documents, which are also the names of their schemas.
func (o overview) whole() string { return o.of.Document.Type + "Overview" }
func (o overview) bare() string  { return o.of.Document.Type + "Insight" }

// overviews returns the endpoints that show resources together with what is known about them.
func (a *API) overviews() (list []httpkit.Endpoint) {
	if a.Insights == nil {
		return nil
	}
	for _, o := range overviewed {
		if slices.Contains(a.Kinds, o.of) {
			list = append(list, reporter{collection{a, o.of}, o}.endpoints()...)
		}
	}
	return list
}

// reporter holds the endpoints of one overview.
type reporter struct {
	collection
	overview
}

func (p reporter) endpoints() (list []httpkit.Endpoint) {
	d, prefix, prefixes := p.kind.Document, prefixAll, []string{prefixAll}
	if p.kind.Scoping == model.Mesh {
		prefix, prefixes = prefixMesh, append(prefixes, prefixMesh)
	}
	add := func(method, pattern, summary string, h http.HandlerFunc, answered httpkit.Contract, failures ...int) {
		e := endpoint(method, pattern, access.Read, summary, mediaJSON, named(h)).About(p.kind.Name)
		if p.kind.Scoping == model.Mesh && !strings.HasPrefix(pattern, prefixMesh) {
			e.Where = somewhere
		}
		list = append(list, does(e, answered, append(failures, http.StatusNotFound)...))
	}
	parameters, read, item := p.parameters(), http.MethodGet, "/{"+pathName+"}"
	for _, prefix := range prefixes {
		for _, path := range []string{p.older, p.kind.Path + "/_overview"} {
			add(read, prefix+path, "List "+d.Plural+" with what they report", p.listOf(prefix+path, demand{}, p.item), shows(p.whole()+suffixList, parameters...))
		}
		add(read, prefix+p.alone, "List what "+d.Plural+" report", p.listOf(prefix+p.alone, demand{known: p.known}, p.report), shows(p.bare()+suffixList, parameters...))
	}
	for _, path := range []string{p.older + item, p.kind.Path + item + "/_overview"} {
		add(read, prefix+path, "Read a "+d.Singular+" with what it reports", p.one(p.whole()), shows(p.whole()))
	}
	add(read, prefix+p.alone+item, "Read what a "+d.Singular+" reports", p.one(p.bare()), shows(p.bare()))
	add(http.MethodPut, prefix+p.alone+item, "Refused: it is only read", refuse(p.api.Writes.onlyRead()), httpkit.Contract{Body: schemaDocument}, http.StatusMethodNotAllowed)
	add(http.MethodDelete, prefix+p.alone+item, "Refused: it is only read", refuse(p.api.Writes.onlyRead()), httpkit.Contract{}, http.StatusMethodNotAllowed)
	return list
}

// one shows an overview, in which a missing insight is shown as {}, or an insight alone, which
// is then not found.
func (p reporter) one(schema string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		res, err := p.read(r)
		if err != nil {
			answer(w, r, opGet, err)
			return
		}
		var doc any
		if schema == p.bare() {
			doc, err = p.report(r, res)
		} else {
			doc, err = p.overviewOf(r, res, struct{}{})
		}
		if err != nil {
			fail(w, r, opGet, err)
			return
		}
		reply(w, r, http.StatusOK, doc)
	}
}

// item shows a resource in a list, in which a missing insight is left out.
func (p reporter) item(r *http.Request, res *model.Resource) (any, error) {
	return p.overviewOf(r, res, nil)
}

// known reports whether there is an insight.
func (p reporter) known(r *http.Request, res *model.Resource) (bool, error) {
	_, ok, err := p.api.Insights.Read(r.Context(), p.kind, res.Scope, res.Name)
	return ok, err
}

// heading begins the documents about a resource.
type heading struct {
	Type             string            `json:"type"`
	Mesh             string            `json:"mesh,omitempty"`
	Name             string            `json:"name"`
	CreationTime     time.Time         `json:"creationTime"`
	ModificationTime time.Time         `json:"modificationTime"`
	Labels           map[string]string `json:"labels,omitempty"`
}

func headingOf(typ string, res *model.Resource) heading {
	return heading{Type: typ, Mesh: res.Scope, Name: res.Name, CreationTime: res.Created.UTC(), ModificationTime: res.Modified.UTC()}
}

// report returns an insight alone. It is as old as its resource.
func (p reporter) report(r *http.Request, res *model.Resource) (any, error) {
	doc, ok, err := p.api.Insights.Read(r.Context(), p.kind, res.Scope, res.Name)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "nothing is known about it")
	}
	if err != nil {
		return nil, err
	}
	h := headingOf(p.bare(), res)
	if dated, ok := doc.(interface{ Updated() time.Time }); ok {
		h.ModificationTime = dated.Updated()
	}
	return joined(h, doc)
}

// overviewOf returns an overview. Beside the insight it says why a proxy does not have the
// configuration that it should have.
func (p reporter) overviewOf(r *http.Request, res *model.Resource, absent any) (any, error) {
	spec, err := p.api.encodingsFor(r, res).spec(res.Kind, res.Spec)
	if err != nil {
		return nil, err
	}
	insight, ok, err := p.api.Insights.Read(r.Context(), p.kind, res.Scope, res.Name)
	if err != nil {
		return nil, err
	}
	if !ok {
		insight = absent
	}
	h := headingOf(p.whole(), res)
	h.Labels = model.LabelsOf(res.Spec)
	if p.mesh != "" {
		h.Mesh = p.mesh
	}
	parts := []any{h, map[string]any{p.part: json.RawMessage(spec)}}
	if insight != nil {
		parts = append(parts, map[string]any{p.insight: insight})
	}
	if p.api.Problems != nil && p.kind == mesh.Dataplanes {
		if problems := p.api.Problems.Of(res.Scope, res.Name); len(problems) > 0 {
			parts = append(parts, map[string][]string{"errors": problems})
		}
	}
	return joined(parts...)
}

// joined returns one JSON object with the members of several, in their order.
func joined(objects ...any) (any, error) {
	out := []byte{'{'}
	for _, o := range objects {
		raw, err := compact(o)
		if err != nil {
			return nil, err
		}
		members := raw[1 : len(raw)-1]
		if len(members) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, members...)
	}
	return json.RawMessage(append(out, '}')), nil
}
