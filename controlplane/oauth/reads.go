package oauth

import (
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// What a request reads may be of any member of what its gateway belongs to. What it
// writes goes where its application is: whoever deletes that, or its consumer, takes
// everything along that hangs on it.

// source is what the control plane of the gateway consists of.
func (t *Request) source(tx store.Reader) (scopes.Source, error) {
	return scopes.OrEach(t.resolver).Resolve(tx, t.Scope)
}

// get reads a resource of the control plane of the gateway: in a group the one that its
// gateways hold.
func (t *Request) get(tx store.Reader, k *model.Kind, name string) (*model.Resource, error) {
	src, err := t.source(tx)
	if err != nil {
		return nil, err
	}
	return src.Get(k, name)
}

// held finds what the client was given, by its value. It is where the client is: a row that
// another member has of the same value is nobody else's, and hides nothing.
func (t *Request) held(tx store.Reader, k *model.Kind, index, value string) (*model.Resource, error) {
	return tx.Find(k, t.owner(), index, value)
}

// owner is the scope of the application.
func (t *Request) owner() string { return t.Application.Scope }

// owns reports whether a row belongs to the client; credential is the application that it
// names. An id alone says nothing: whoever writes chooses it, and another member may have
// chosen the same.
func (t *Request) owns(res *model.Resource, credential string) bool {
	return res.Scope == t.owner() && credential == t.Application.Name
}

// offered reports whether a resource is of the control plane of the plugin, in which the
// current service and its routes are, too.
func (t *Request) offered(res *model.Resource) bool { return res.Scope == t.plugin.Scope }
