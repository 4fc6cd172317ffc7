package cloud

import (
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Resolver tells what control planes consist of, by the rows of [Groups]. The first control plane is
// never a group, so nothing is read for it.
type Resolver struct{}

// own are the kinds that a group has itself: its gateways enrol with it.
var own = []string{gateway.Instances.Name}

// Resolve implements [scopes.Resolver].
func (Resolver) Resolve(r store.Reader, scope string) (scopes.Source, error) {
	if scope == model.DefaultControlPlane {
		return scopes.Of(r, scope), nil
	}
	g, err := GroupOf(r, scope)
	if err != nil || g == nil {
		return scopes.Of(r, scope), err
	}
	members := make([]string, len(g.Members))
	for i, id := range g.Members {
		members[i] = ScopeOf(id)
	}
	return scopes.Union(r, members...), nil
}

// GroupOf reads the members of a group; nil for any other control plane.
func GroupOf(r store.Reader, id string) (*Group, error) {
	res, err := r.Get(Groups, "", id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is no group
	}
	if err != nil {
		return nil, err
	}
	return res.Spec.(*Group), nil
}

// Shapes implements [scopes.Resolver].
func (Resolver) Shapes(scope string, key model.Key) bool {
	return key == model.Key{Kind: Groups.Name, Name: scope}
}

// Shaped implements [scopes.Resolver].
func (Resolver) Shaped(c store.Change) []string {
	res := c.New
	if res == nil {
		res = c.Old
	}
	if res.Kind != Groups {
		return nil
	}
	return []string{res.Name}
}

// Groups implements [scopes.Resolver].
func (Resolver) Groups(r store.Reader, member string) (of []string, err error) {
	rows, err := r.List(Groups, store.Query{Index: IndexMembers, Value: IDOf(member)})
	for _, row := range rows {
		of = append(of, row.Name)
	}
	return of, err
}

// ReadOnly implements [scopes.Resolver].
func (Resolver) ReadOnly(r store.Reader, key model.Key) (bool, error) {
	if key.Scope == model.DefaultControlPlane || slices.Contains(own, key.Kind) {
		return false, nil
	}
	g, err := GroupOf(r, key.Scope)
	return g != nil, err
}

// Lasts implements [scopes.Lasting].
func (Resolver) Lasts(scope string) bool { return scope == model.DefaultControlPlane }

// Exists implements [scopes.Register]. A control plane that is being deleted exists no more.
func (Resolver) Exists(r store.Reader, scope string) (bool, error) {
	if scope == model.DefaultControlPlane {
		return true, nil
	}
	res, err := r.Get(ControlPlanes, "", scope)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil && !res.Spec.(*ControlPlane).Ending, err
}

// Named reads the control plane of a name or id, which is NotFound if there is none.
func Named(r store.Reader, text string) (*model.Resource, error) {
	if text == model.DefaultControlPlane {
		text = DefaultID
	}
	res, err := r.Get(ControlPlanes, "", text)
	if fault.Is(err, fault.NotFound) && !model.IsUUID(strings.ToLower(text)) { // one that is stored may have had such a name
		res, err = r.Find(ControlPlanes, "", IndexName, text)
	}
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "there is no control plane %q", text)
	}
	return res, err
}

// ScopeNamed is the scope of the control plane of a name or id, or NotFound.
func ScopeNamed(r store.Reader, text string) (string, error) {
	res, err := Named(r, text)
	if err != nil {
		return "", err
	}
	return ScopeOf(res.Name), nil
}
