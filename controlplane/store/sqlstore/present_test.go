package sqlstore_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestWhatWasPresent: what a reference has found once is not believed to be there when it was
// deleted, has got an end, or was made by a transaction that was undone.
func TestWhatWasPresent(t *testing.T) {
	t.Parallel()
	errUndo := errors.New("undone")
	person := func(ends int64) *model.Resource {
		return &model.Resource{Kind: storetest.Person, Scope: "s", Name: "p", Spec: &storetest.Item{Ends: ends}}
	}
	badge := func(tx store.Tx, name string) error {
		_, err := tx.Create(&model.Resource{Kind: storetest.Badge, Scope: "s", Name: name, Spec: &storetest.Item{Person: "p"}})
		return err
	}
	made := func(tx store.Tx) error {
		_, err := tx.Create(person(0))
		return errors.Join(err, badge(tx, "first"))
	}
	for name, c := range map[string]struct{ before, goes func(tx store.Tx) error }{
		"deleted":     {made, func(tx store.Tx) error { return tx.Delete(storetest.Person, "s", "p", 0) }},
		"with an end": {made, func(tx store.Tx) error { _, err := tx.Update(person(1), 0); return err }},
		"never made":  {func(store.Tx) error { return nil }, func(tx store.Tx) error { return errors.Join(made(tx), errUndo) }},
		"deleted twice": {made, func(tx store.Tx) error {
			return errors.Join(tx.Delete(storetest.Person, "s", "p", 0), made(tx), tx.Delete(storetest.Person, "s", "p", 0))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options(t, filepath.Join(t.TempDir(), "meshgate.db")))
			for _, step := range []func(store.Tx) error{c.before, c.goes} {
				if _, err := s.Update(t.Context(), model.Config, step); err != nil && !errors.Is(err, errUndo) {
					t.Fatal(err)
				}
			}
			if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error { return badge(tx, "second") }); !fault.Is(err, fault.Dangling) {
				t.Errorf("a reference to nothing: %v", err)
			}
		})
	}
}
