package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Secrets returns the hook for [mesh.Secrets]. It refuses to delete a secret that an
// authority of the mesh needs, whether its backend is enabled or not, and keeps keys of authorities
// apart from those that proxies hold.
func Secrets() admit.Hook { return secrets{} }

type secrets struct{}

// Prepare implements admit.Hook.
func (secrets) Prepare(context.Context, store.Reader, string, any) (any, error) { return nil, nil }

// Stored implements admit.Hook. No key of an authority becomes one that proxies present to
// services outside the mesh, and none of these becomes one of an authority.
func (secrets) Stored(tx store.Tx, _, stored *model.Resource, _ any) error {
	presented, err := referrers(tx, stored.Scope, stored.Name)
	if err != nil {
		return err
	}
	var vs []fault.Violation
	for _, res := range presented {
		more, err := exposed(tx, stored.Scope, "data", res.Spec.(*mesh.ExternalService))
		if err != nil {
			return err
		}
		vs = append(vs, more...)
	}
	res, err := tx.Get(mesh.Meshes, "", stored.Scope)
	if err != nil {
		return err
	}
	m := res.Spec.(*mesh.Mesh)
	if m.MTLS != nil && slices.ContainsFunc(m.MTLS.Backends, func(b mesh.Authority) bool { return slices.Contains(uses(stored.Scope, &b), stored.Name) }) {
		more, err := held(tx, stored.Scope, "data", m)
		if err != nil {
			return err
		}
		vs = append(vs, more...)
	}
	return fault.Violated(vs)
}

// Deleting implements admit.Hook.
func (secrets) Deleting(tx store.Tx, r *model.Resource) error {
	res, err := tx.Get(mesh.Meshes, "", r.Scope)
	if err != nil {
		return err
	}
	mtls := res.Spec.(*mesh.Mesh).MTLS
	if mtls == nil {
		return nil
	}
	var vs []fault.Violation
	for i := range mtls.Backends {
		b := &mtls.Backends[i]
		if slices.Contains(uses(r.Scope, b), r.Name) {
			vs = append(vs, fault.Violation{Path: "name", Message: fmt.Sprintf(
				"The secret %q that you are trying to remove is currently in use in Mesh %q in mTLS backend %q. "+
					"Please remove the reference from the %q backend before removing the secret.",
				r.Name, r.Scope, b.Name, b.Name)})
		}
	}
	return fault.Violated(vs)
}

// Ensure creates the named meshes that do not exist, with everything that belongs to them.
func Ensure(ctx context.Context, gate *admit.Gate, names ...string) error {
	for _, name := range names {
		if _, err := gate.EnsureDocument(ctx, mesh.Meshes, "", name, &mesh.Mesh{}); err != nil {
			return fmt.Errorf("create mesh %s: %w", name, err)
		}
	}
	return nil
}
