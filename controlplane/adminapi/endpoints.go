package adminapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Names of path values.
const (
	pathKey   = "key"
	pathOwner = "owner"
)

// Endpoints lists every endpoint of the API: the collections, each below those
// that its references point to, the target of each reference, and a few of
// their own.
func (a *API) Endpoints() []httpkit.Endpoint {
	list := a.information()
	for _, c := range a.Collections {
		top := place{api: a, collection: c, address: func(r *http.Request) admit.Address {
			return admit.Address{Kind: c.Kind, Scope: a.Scope, Key: r.PathValue(pathKey)}
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
	return list
}

// nested offers c below the resource that its reference points to.
func (a *API) nested(c, owner Collection, ref model.Ref) []httpkit.Endpoint {
	p := place{api: a, collection: c, nested: true, address: func(r *http.Request) admit.Address {
		return admit.Address{
			Kind: c.Kind, Scope: a.Scope, Key: r.PathValue(pathKey),
			Under: &admit.Link{Ref: ref.Name, Address: admit.Address{Kind: owner.Kind, Scope: a.Scope, Key: r.PathValue(pathOwner)}},
		}
	}}
	return p.endpoints("/" + owner.Kind.Path + "/{" + pathOwner + "}/" + c.Kind.Path)
}

// foreign offers the target of a reference below the resource that refers.
func (a *API) foreign(c, target Collection, ref model.Ref) []httpkit.Endpoint {
	p := place{api: a, collection: target, nested: true, address: func(r *http.Request) admit.Address {
		return admit.Address{
			Kind: target.Kind, Scope: a.Scope,
			Of: &admit.Link{Ref: ref.Name, Address: admit.Address{Kind: c.Kind, Scope: a.Scope, Key: r.PathValue(pathKey)}},
		}
	}}
	pattern := "/" + c.Kind.Path + "/{" + pathKey + "}/" + ref.Name
	return []httpkit.Endpoint{
		endpoint(http.MethodGet, pattern, "Read the "+ref.Name, p.get),
		endpoint(http.MethodPatch, pattern, "Change the "+ref.Name, p.patch),
		endpoint(http.MethodPut, pattern, "Replace the "+ref.Name, p.put),
		endpoint(http.MethodDelete, pattern, "Refused: a target is not deleted through its reference", p.refuseDelete),
	}
}

// place is one collection at one path.
type place struct {
	api        *API
	collection Collection
	// nested places have an owner that may be missing too, which is why they
	// say no more than that something was not found.
	nested  bool
	address func(*http.Request) admit.Address
}

func (p place) endpoints(path string) []httpkit.Endpoint {
	kind, item := p.collection.Kind, path+"/{"+pathKey+"}"
	list := []httpkit.Endpoint{
		endpoint(http.MethodGet, path, "List "+kind.Path, p.list),
		endpoint(http.MethodGet, item, "Read a "+kind.Name, p.get),
	}
	if kind.ReadOnly {
		return list
	}
	return append(list,
		endpoint(http.MethodPost, path, "Create a "+kind.Name, p.create),
		endpoint(http.MethodPatch, item, "Change a "+kind.Name, p.patch),
		endpoint(http.MethodPut, item, "Create or replace a "+kind.Name, p.put),
		endpoint(http.MethodDelete, item, "Delete a "+kind.Name, p.delete),
	)
}

func endpoint(method, pattern, summary string, h http.HandlerFunc) httpkit.Endpoint {
	return httpkit.Endpoint{Method: method, Pattern: pattern, Auth: httpkit.Administrator, Summary: summary, Handler: h}
}
