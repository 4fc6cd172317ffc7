package oauth

import (
	"cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// In a group an id alone says nothing: two members may have it. What is bound to a service
// or issued by a plugin names the control plane of that, and what belongs to an application
// is in the scope of it.

// current finds the member whose service the gateway names. A token for a service counts
// nowhere else.
func (t *Request) current(tx store.Reader) error {
	src, err := t.source(tx)
	if err != nil || !src.IsUnion() || t.Service == "" || t.Config.GlobalCredentials {
		return err
	}
	t.serving, err = src.Get(gateway.Services, t.Service)
	return err
}

// elsewhere is a scope as a reference of the application's rows names it: empty for their
// own.
func (t *Request) elsewhere(scope string) string {
	if scope == t.owner() {
		return ""
	}
	return scope
}

// serviceScope is that of the current service.
func (t *Request) serviceScope() string {
	if t.serving != nil {
		return t.serving.Scope
	}
	return t.Scope
}

// servicePlane is serviceScope for what is bound to the current service.
func (t *Request) servicePlane() string {
	if t.service() == "" {
		return ""
	}
	return t.elsewhere(t.serviceScope())
}

// reachable finds out whether a row counts here that is bound to a service, and plane says
// of which control plane: NotFound where that is no member, or where gateways hold the
// service of another member that had the id first.
func reachable(src scopes.Source, res *model.Resource, service, plane string) error {
	if service == "" {
		return nil
	}
	plane = cmp.Or(plane, res.Scope)
	if !src.Has(plane) {
		return fault.New(fault.NotFound, "service %q of control plane %q is not of this one", service, plane)
	}
	if !src.IsUnion() {
		return nil
	}
	first, err := src.Get(gateway.Services, service)
	if err == nil && first.Scope != plane {
		err = fault.New(fault.NotFound, "service %q of control plane %q is left out: %q had its id first", service, plane, first.Scope)
	}
	return err
}

// reachableToken is reachable for the row of a token.
func reachableToken(src scopes.Source, res *model.Resource) error {
	token := res.Spec.(*gateway.Token)
	return reachable(src, res, token.Service, token.ServicePlane)
}

// shownBy returns the application of a token and makes sure that nobody can take it for
// that of another member, which had the client_id first. Upstreams are told its client_id;
// its id they are not.
func shownBy(r store.Reader, src scopes.Source, token *model.Resource) (*model.Resource, error) {
	app, err := r.Get(gateway.Applications, token.Scope, token.Spec.(*gateway.Token).Credential)
	if err != nil {
		return nil, err
	}
	return app, src.Counts(app, shown(app.Kind)...)
}

// leftOut reports whether, in some group that a control plane is a member of, another member
// had first the value of a token or key, or what upstreams are told of one of these.
func leftOut(r store.Reader, by scopes.Resolver, credential *model.Resource, who ...*model.Resource) (bool, error) {
	fellows, err := scopes.Fellows(r, by, credential.Scope)
	if err != nil || len(fellows.Scopes()) == 0 {
		return false, err
	}
	if second, err := isSecond(fellows, credential); second || err != nil {
		return second, err
	}
	for _, res := range who {
		err := fellows.Counts(res, shown(res.Kind)...)
		if _, is := scopes.ClashIn(err); is {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// isSecond reports whether another one of some members had the value of a token or key
// first. The value is secret, so that is no [scopes.Clash]: a clash names what both have.
func isSecond(fellows scopes.Source, credential *model.Resource) (bool, error) {
	index := gateway.IndexAccessToken
	if credential.Kind == gateway.Keys {
		index = gateway.IndexKey
	}
	value, _ := scopes.ValueOf(credential, index)
	first, err := fellows.Find(credential.Kind, index, value)
	if fault.Is(err, fault.NotFound) { // its own row has ended meanwhile
		return false, nil
	}
	return err == nil && first.Scope != credential.Scope, err
}
