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
// authority of the mesh needs, whether its backend is enabled or not.
func Secrets() admit.Hook { return secrets{} }

type secrets struct{}

// Prepare implements admit.Hook.
func (secrets) Prepare(context.Context, store.Reader, string, any) (any, error) { return nil, nil }

// Stored implements admit.Hook.
func (secrets) Stored(store.Tx, *model.Resource, *model.Resource, any) error { return nil }

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
