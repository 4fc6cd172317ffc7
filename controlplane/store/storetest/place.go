package storetest

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Place creates or updates a resource; a nil spec deletes it.
func Place(t testing.TB, s store.Store, k *model.Kind, scope, name string, spec any) {
	t.Helper()
	_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		if spec == nil {
			return tx.Delete(k, scope, name, 0)
		}
		res := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		if _, err := tx.Update(res, 0); !fault.Is(err, fault.NotFound) {
			return err
		}
		_, err := tx.Create(res)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
