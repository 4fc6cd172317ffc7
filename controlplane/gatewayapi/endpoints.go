package gatewayapi

import (
	"maps"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The names of path values.
const (
	pathKey   = "key"
	pathOwner = "owner"
)

// Endpoints lists all endpoints of the API: the collections, also below the targets of their
// references, the target of each reference, and some others.
func (a *API) Endpoints() []httpkit.Endpoint {
	var list []httpkit.Endpoint
	for _, c := range a.Collections {
		top := place{api: a, collection: c, address: func(r *http.Request) admit.Address {
			return admit.Address{Kind: c.Kind, Scope: a.scope(r), Key: r.PathValue(pathKey)}
		}}
		list = append(list, top.endpoints("/"+c.Kind.Path)...)
		for _, ref := range c.Kind.Refs {
			owner, ok := a.byKind[ref.To]
			if !ok {
				continue
			}
			list = append(list, a.nested(c, owner, ref)...)
			list = append(list, a.foreign(c, owner, ref)...)
		}
	}
	list = append(list, a.tokenEndpoints()...)
	if a.ReadOnly != "" {
		a.refuseWrites(list)
	}
	if e, ok := a.healthEndpoint(); ok {
		list = append(list, e)
	}
	list = append(list, a.nodeEndpoints()...)
	list = append(list, a.explanations()...)
	list = append(append(append(list, a.tagEndpoints()...), a.information()...), a.schemaEndpoints()...)
	if a.Entities {
		list = append(list, a.jsonSchemaEndpoint())
	}
	for i := range list {
		if list[i].Where == nil {
			list[i].Where = a.here
		}
	}
	return list
}

// refuseWrites makes the endpoints that write refuse with the reason.
func (a *API) refuseWrites(list []httpkit.Endpoint) {
	for i := range list {
		if list[i].Method == http.MethodGet {
			continue
		}
		list[i].Handler = func(w http.ResponseWriter, r *http.Request) {
			httpkit.EntryOf(r.Context()).Code = "read_only"
			w.Header().Set("Allow", "GET, HEAD, OPTIONS")
			httpkit.WriteMessage(w, http.StatusMethodNotAllowed, a.ReadOnly)
		}
	}
}

// nested offers c below the target of its reference.
func (a *API) nested(c, owner Collection, ref model.Ref) []httpkit.Endpoint {
	p := place{api: a, collection: c, nested: true, address: func(r *http.Request) admit.Address {
		return admit.Address{
			Kind: c.Kind, Scope: a.scope(r), Key: r.PathValue(pathKey),
			Under: &admit.Relation{Ref: ref.Name, Address: admit.Address{Kind: owner.Kind, Scope: a.scope(r), Key: r.PathValue(pathOwner)}},
		}
	}}
	return p.endpoints("/" + owner.Kind.Path + "/{" + pathOwner + "}/" + c.nested())
}

// foreign offers the target of a reference below the resource that refers to it.
func (a *API) foreign(c, target Collection, ref model.Ref) []httpkit.Endpoint {
	p := place{api: a, collection: target, nested: true, address: func(r *http.Request) admit.Address {
		return admit.Address{
			Kind: target.Kind, Scope: a.scope(r),
			Of: &admit.Relation{Ref: ref.Name, Address: admit.Address{Kind: c.Kind, Scope: a.scope(r), Key: r.PathValue(pathKey)}},
		}
	}}
	pattern := "/" + c.Kind.Path + "/{" + pathKey + "}/" + ref.Name
	refused := endpoint(http.MethodDelete, pattern, "Refused: a target is not deleted through its reference", p.refuseDelete)
	refused.Contract.Query = p.api.tries()
	refused.Contract.Answers = answers(http.StatusNotFound, http.StatusMethodNotAllowed)
	return p.about(
		p.reads(endpoint(http.MethodGet, pattern, "Read the "+ref.Name, p.get)),
		p.writes(endpoint(http.MethodPatch, pattern, "Change the "+ref.Name, p.patch), http.StatusOK),
		p.writes(endpoint(http.MethodPut, pattern, "Replace the "+ref.Name, p.put), http.StatusOK),
		refused,
	)
}

// place is one collection at one path.
type place struct {
	api        *API
	collection Collection
	// nested places have an owner, which may be missing too. So they answer only that
	// something was not found.
	nested  bool
	address func(*http.Request) admit.Address
	// sources, if set, returns the source of lists instead of address.
	sources func(store.Reader, *http.Request) (source, error)
}

func (p place) endpoints(path string) []httpkit.Endpoint {
	kind, item := p.collection.Kind, path+"/{"+pathKey+"}"
	list := []httpkit.Endpoint{
		p.lists(endpoint(http.MethodGet, path, "List "+kind.Path, p.list)),
		p.reads(endpoint(http.MethodGet, item, "Read a "+kind.Name, p.get)),
	}
	if kind.ReadOnly {
		return p.about(list...)
	}
	removed := endpoint(http.MethodDelete, item, "Delete a "+kind.Name, p.delete)
	removed.Contract.Answers = answers(http.StatusNotFound)
	removed.Contract.Answers[http.StatusNoContent] = ""
	removed = p.tried(removed, http.StatusNoContent)
	return p.about(append(list,
		p.writes(endpoint(http.MethodPost, path, "Create a "+kind.Name, p.create), http.StatusCreated),
		p.writes(endpoint(http.MethodPatch, item, "Change a "+kind.Name, p.patch), http.StatusOK),
		p.writes(endpoint(http.MethodPut, item, "Create or replace a "+kind.Name, p.put), http.StatusOK),
		removed,
	)...)
}

// about names the kind of the endpoints for the log.
func (p place) about(list ...httpkit.Endpoint) []httpkit.Endpoint {
	for i := range list {
		list[i] = list[i].About(p.collection.Kind.Name)
	}
	return list
}

// lists, reads and writes set the contract of an endpoint of this place.
func (p place) lists(e httpkit.Endpoint) httpkit.Endpoint {
	e.Contract.Query = []httpkit.Parameter{
		{Name: "size", Type: "integer", Summary: "How many, 1 to 1000; 100 if not given"},
		{Name: "offset", Type: "string", Summary: "Where to go on: the offset of the page before"},
	}
	if tagged(p.collection.Kind) {
		e.Contract.Query = append(e.Contract.Query, httpkit.Parameter{
			Name: "tags", Type: "string", Summary: "a,b: with all of these tags; a/b: with any of them; at most 5",
		})
	}
	if p.api.Entities {
		e.Contract.Query = append(e.Contract.Query, nameFilters...)
	}
	if !p.nested {
		for _, name := range p.collection.Filters {
			e.Contract.Query = append(e.Contract.Query, httpkit.Parameter{Name: name, Type: "string", Summary: "Only the one with this " + name})
		}
	}
	e.Contract.Answers = answers(http.StatusNotFound)
	e.Contract.Answers[http.StatusOK] = p.collection.Kind.Name + suffixPage
	return p.revealing(e)
}

func (p place) reads(e httpkit.Endpoint) httpkit.Endpoint {
	e.Contract.Answers = answers(http.StatusNotFound)
	e.Contract.Answers[http.StatusOK] = p.collection.Kind.Name
	return p.revealing(e)
}

func (p place) writes(e httpkit.Endpoint, status int) httpkit.Endpoint {
	e.Contract.Query = []httpkit.Parameter{{
		Name: httpkit.ArgFieldValidation, Type: "string",
		Summary: "What becomes of fields that mean nothing: strict (if not given) refuses them, warn drops them and says so, ignore drops them",
	}}
	e.Contract.Body = p.collection.Kind.Name + suffixWrite
	if e.Method == http.MethodPatch {
		e.Contract.Body = p.collection.Kind.Name + suffixPatch
	}
	e.Contract.Answers = answers(http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge)
	e.Contract.Answers[http.StatusUnsupportedMediaType] = ""
	e.Contract.Answers[status] = p.collection.Kind.Name
	return p.tried(e, status)
}

// always lists the answers that every endpoint may give: the query cannot be read, the guard
// refuses, an unexpected failure, the request took too long.
var always = map[int]string{
	http.StatusBadRequest: schemaError, http.StatusForbidden: schemaError,
	http.StatusInternalServerError: schemaError, http.StatusServiceUnavailable: schemaError,
}

// answers returns the failures with which an endpoint may answer.
func answers(failures ...int) map[int]string {
	m := maps.Clone(always)
	for _, status := range failures {
		m[status] = schemaError
	}
	return m
}

// endpoint returns an endpoint for those who may read the control plane or, if it changes
// something, for those who may write it.
func endpoint(method, pattern, summary string, h http.HandlerFunc) httpkit.Endpoint {
	auth := access.Write
	if method == http.MethodGet {
		auth = access.Read
	}
	return httpkit.Endpoint{Method: method, Pattern: pattern, Auth: auth, Summary: summary, Handler: h}
}

// administered returns an endpoint for administrators of the control plane.
func administered(e httpkit.Endpoint) httpkit.Endpoint {
	e.Auth = httpkit.Administrator
	return e
}

// revealing returns an endpoint that shows resources of a kind. Credentials are for those who
// may write them, because whoever reads a token can use it.
func (p place) revealing(e httpkit.Endpoint) httpkit.Endpoint {
	if len(p.collection.Kind.Secrets) > 0 {
		e.Auth = access.Write
	}
	return e
}

// answering sets the schema of an endpoint's successful answer.
func answering(e httpkit.Endpoint, schema string, failures ...int) httpkit.Endpoint {
	e.Contract.Answers = answers(failures...)
	e.Contract.Answers[http.StatusOK] = schema
	return e
}
