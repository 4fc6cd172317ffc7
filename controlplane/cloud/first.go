package cloud

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Writer runs a transaction.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// EnsureFirst makes the control plane that exists from the start, unless it is there.
func EnsureFirst(ctx context.Context, s store.Store, w Writer) error {
	err := s.View(ctx, func(r store.Reader) error {
		_, err := r.Get(ControlPlanes, "", DefaultID)
		return err
	})
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	_, err = w.Write(ctx, model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: ControlPlanes, Name: DefaultID, Spec: &ControlPlane{
			Name: model.DefaultControlPlane, ClusterType: TypeHybrid, AuthType: "pinned_client_certs",
		}})
		if fault.Is(err, fault.Exists) { // another process was first
			err = nil
		}
		return err
	})
	return err
}
