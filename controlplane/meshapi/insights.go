package meshapi

import (
	"context"
	"github.com/meshgate/meshgate/controlplane/access"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// Census counts what meshes consist of; [census.Census] implements it.
type Census interface {
	// Now returns a state that counts everything that had happened when it was called, and the
	// time. The error is Unavailable if ctx ends before there is one.
	Now(ctx context.Context) (*census.State, time.Time, error)
}

// The collections of insights.
const (
	pathMeshInsights    = "mesh-insights"
	pathServiceInsights = "service-insights"
)

// Clients know these titles of service insights.
var (
	opServiceSize   = operation{"Could not paginate resources", opSize.rows}
	opServiceOffset = operation{"Could not paginate resources", opOffset.rows}
)

// insights returns the endpoints that show counts.
func (a *API) insights() (list []httpkit.Endpoint) {
	if a.Census == nil {
		return nil
	}
	add := func(method, pattern, summary string, h http.HandlerFunc, answered httpkit.Contract, failures ...int) {
		e := endpoint(method, pattern, access.Read, summary, mediaJSON, named(h))
		switch pattern {
		case prefixAll + pathMeshInsights, prefixAll + pathServiceInsights:
			e.Where = somewhere
		case prefixAll + pathMeshInsights + "/{" + pathName + "}":
			e.Where = ofMesh
		}
		list = append(list, does(e, answered, failures...))
	}
	get := func(pattern, summary string, h counted, answered httpkit.Contract, failures ...int) {
		add(http.MethodGet, pattern, summary, a.counted(h), answered, failures...)
	}
	item, part := "/{"+pathName+"}", httpkit.Parameter{Name: "name", Type: "string", Summary: "Only those whose names contain this"}
	kinds := httpkit.Parameter{Name: "type", Type: "string", Summary: "Only services of these types, separated by commas: internal, external, gateway_builtin, gateway_delegated"}
	get(prefixAll+pathMeshInsights, "Count what meshes consist of", a.meshInsights, shows(schemaMeshInsight+suffixList, paramSize, paramOffset, part))
	get(prefixAll+pathMeshInsights+item, "Count what a mesh consists of", meshInsight, shows(schemaMeshInsight), http.StatusNotFound)
	services := shows(schemaServiceInsight+suffixList, paramSize, paramOffset, part, kinds)
	get(prefixAll+pathServiceInsights, "List services with the number of their dataplanes", a.serviceInsights, services)
	get(prefixMesh+pathServiceInsights, "List the services of a mesh with the number of their dataplanes", a.serviceInsights, services, http.StatusNotFound)
	get(prefixMesh+pathServiceInsights+item, "Count the dataplanes of a service", serviceInsight, shows(schemaServiceInsight), http.StatusNotFound)
	for _, pattern := range []string{prefixAll + pathMeshInsights + item, prefixMesh + pathServiceInsights + item} {
		add(http.MethodPut, pattern, "Refused: it is only read", refuse(a.Writes.onlyRead()), httpkit.Contract{Body: schemaDocument}, http.StatusMethodNotAllowed)
		add(http.MethodDelete, pattern, "Refused: it is only read", refuse(a.Writes.onlyRead()), httpkit.Contract{}, http.StatusMethodNotAllowed)
	}
	get("/global-insights", "Count what belongs to no mesh", func(_ *http.Request, s *census.State, now time.Time) (any, error) {
		return s.Global(now), nil
	}, shows(schemaGlobalInsights))
	get("/global-insight", "Count everything", func(_ *http.Request, s *census.State, now time.Time) (any, error) {
		return s.All(now), nil
	}, shows(schemaGlobalInsight))
	get("/status/zones", "List which zones take part", func(_ *http.Request, s *census.State, _ time.Time) (any, error) {
		return append([]census.ZoneStatus{}, s.Zones()...), nil
	}, shows(schemaZoneStatus))
	return list
}

// countingPatience is how long an answer waits for the count of what was written last. It is far
// below the write timeout of the server: a client learns that nothing can be counted at present.
const countingPatience = 5 * time.Second

// counted makes an answer from a state. Its error may have an operation.
type counted func(r *http.Request, s *census.State, now time.Time) (any, error)

func (a *API) counted(make counted) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), countingPatience)
		defer cancel()
		s, now, err := a.Census.Now(ctx)
		var doc any
		if err == nil {
			doc, err = make(r, s, now)
		}
		if err != nil {
			answer(w, r, opGet, err)
			return
		}
		reply(w, r, http.StatusOK, doc)
	}
}

func meshInsight(r *http.Request, s *census.State, _ time.Time) (any, error) {
	m, err := s.Mesh(r.PathValue(pathName))
	if err != nil {
		return nil, err
	}
	return m.Insight(), nil
}

func (a *API) meshInsights(r *http.Request, s *census.State, _ time.Time) (any, error) {
	p, err := pagerOf(r, opSize, "name")
	if err != nil {
		return nil, err
	}
	if err := p.from(opOffset); err != nil {
		return nil, err
	}
	for _, m := range a.visible(r, s) {
		if in := m.Insight(); strings.Contains(in.Name, p.part) {
			p.add(in)
		}
	}
	return p.listing(), nil
}

// visible returns the meshes that the caller of a request may see.
func (a *API) visible(r *http.Request, s *census.State) []*census.Mesh {
	may := a.seen(r)
	if may == nil {
		return s.Meshes()
	}
	return slices.DeleteFunc(slices.Clone(s.Meshes()), func(m *census.Mesh) bool { return !may(m.Insight().Name) })
}

func serviceInsight(r *http.Request, s *census.State, _ time.Time) (any, error) {
	m, err := s.Mesh(r.PathValue(pathMesh))
	if err != nil {
		return nil, failed(opMesh, err)
	}
	return m.Service(r.PathValue(pathName))
}

func (a *API) serviceInsights(r *http.Request, s *census.State, _ time.Time) (any, error) {
	p, err := pagerOf(r, opServiceSize, "name", "type")
	if err != nil {
		return nil, err
	}
	picks, err := serviceTypes(p.query.Get("type"))
	if err != nil {
		return nil, err
	}
	meshes := a.visible(r, s)
	if name := r.PathValue(pathMesh); name != "" {
		m, err := s.Mesh(name)
		if err != nil {
			return nil, failed(opMesh, err)
		}
		meshes = []*census.Mesh{m}
	}
	if err := p.from(opServiceOffset); err != nil {
		return nil, err
	}
	for _, m := range meshes {
		for _, svc := range m.Services() {
			if picks(svc.Kind()) && strings.Contains(svc.Name, p.part) {
				p.add(svc)
			}
		}
	}
	return p.listing(), nil
}

// serviceTypes reads a list of types; an empty one picks all.
func serviceTypes(text string) (func(string) bool, error) {
	if text == "" {
		return func(string) bool { return true }, nil
	}
	types := strings.Split(text, ",")
	for _, typ := range types {
		switch typ {
		case census.TypeInternal, census.TypeExternal, census.TypeBuiltin, census.TypeDelegated:
		default:
			return nil, failed(opDecode, fault.New(fault.Invalid, "bad request: unsupported service type"))
		}
	}
	return func(typ string) bool { return slices.Contains(types, typ) }, nil
}

// pager collects one page of a list that is in memory.
type pager struct {
	window
	r     *http.Request
	query url.Values
	total int
	items []any
}

// pagerOf reads the query of a list, other than the offset, which is checked last. filters are the parameters by
// which the list can be filtered.
func pagerOf(r *http.Request, size operation, filters ...string) (*pager, error) {
	query, err := httpkit.Query(r)
	if err != nil {
		return nil, failed(opDecode, fault.Wrap(fault.Invalid, err, "the query is malformed"))
	}
	p := &pager{r: r, query: query, items: []any{}}
	p.part = query.Get("name")
	if p.size, err = pageSize(query.Get("size")); err != nil {
		return nil, failed(size, err)
	}
	return p, failed(opList, unfiltered(query, filters...))
}

func (p *pager) from(op operation) (err error) {
	p.offset, err = pageOffset(p.query.Get("offset"))
	return failed(op, err)
}

func (p *pager) add(item any) {
	if p.total >= p.offset && len(p.items) < p.size {
		p.items = append(p.items, item)
	}
	p.total++
}

func (p *pager) listing() listing {
	doc := listing{Total: p.total, Items: p.items}
	if end := p.offset + len(p.items); len(p.items) > 0 && end < p.total {
		next := nextPage(p.r, p.query, strconv.Itoa(end))
		doc.Next = &next
	}
	return doc
}
