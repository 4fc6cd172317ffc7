package view

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Membership is what a control plane consists of, for those who do not follow it, such as
// because it cannot be read.
type Membership struct {
	scopes.Members
	shapes func(model.Key) bool
}

// Shapes reports whether a change of a key may change the membership.
func (m *Membership) Shapes(key model.Key) bool { return m.shapes(key) }

// Membership returns what a control plane consists of in the newest state.
func (v *Views) Membership(ctx context.Context, name string) (*Membership, error) {
	m := &Membership{shapes: func(key model.Key) bool { return v.resolver.Shapes(name, key) }}
	err := v.store.View(ctx, func(r store.Reader) error {
		src, err := v.resolver.Resolve(r, name)
		m.Members = src.Members
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}
