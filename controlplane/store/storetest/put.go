package storetest

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Put creates or replaces a resource, for tests of what reads stores.
func Put(t testing.TB, s store.Store, k *model.Kind, scope, name string, spec any) (revision uint64) {
	t.Helper()
	c, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		if _, err := tx.Get(k, scope, name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.Revision
}
