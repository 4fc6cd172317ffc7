// Package scopestest has groups of control planes for tests.
package scopestest

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Group lists the members of a group.
type Group struct {
	Members []string `json:"members"`
}

// Groups is the kind of groups. The row of a group has the name of its scope. A scope without
// a row consists of itself.
var Groups = &model.Kind{
	Name: "test_group", Path: "test_groups", Scoping: model.Global, Class: model.Config, New: func() any { return new(Group) },
}

// Resolver resolves the groups of a store. The kinds in Own are written by nodes, and belong
// to the group itself.
type Resolver struct{ Own []string }

// Resolve implements [scopes.Resolver].
func (Resolver) Resolve(r store.Reader, scope string) (scopes.Source, error) {
	res, err := r.Get(Groups, "", scope)
	if fault.Is(err, fault.NotFound) {
		return scopes.Of(r, scope), nil
	}
	if err != nil {
		return scopes.Source{}, err
	}
	return scopes.Union(r, res.Spec.(*Group).Members...), nil
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
	rows, err := r.List(Groups, store.Query{})
	for _, row := range rows {
		if slices.Contains(row.Spec.(*Group).Members, member) {
			of = append(of, row.Name)
		}
	}
	return of, err
}

// ReadOnly implements [scopes.Resolver].
func (g Resolver) ReadOnly(r store.Reader, key model.Key) (bool, error) {
	if slices.Contains(g.Own, key.Kind) {
		return false, nil
	}
	src, err := g.Resolve(r, key.Scope)
	return err == nil && src.IsUnion(), err
}

// Set makes a scope a group of members. Without members, the scope consists of itself again.
func Set(tx store.Tx, scope string, members ...string) error {
	res := &model.Resource{Kind: Groups, Name: scope, Spec: &Group{Members: members}}
	_, err := tx.Get(Groups, "", scope)
	switch {
	case err == nil:
		_, err = tx.Update(res, 0)
	case fault.Is(err, fault.NotFound):
		_, err = tx.Create(res)
	}
	return err
}
