package view_test

import (
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
)

// TestZoneWithAnUnreadableMesh: a zone says that a mesh cannot be read, until it can be or is gone.
func TestZoneWithAnUnreadableMesh(t *testing.T) {
	secured := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}}
	created := func(k *model.Kind, name string, spec any) func(store.Tx) error {
		return func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: k, Name: name, Spec: spec})
			return err
		}
	}
	written := func(tx store.Tx) error {
		_, err := tx.Update(&model.Resource{Kind: mesh.Meshes, Name: "bad", Spec: secured}, 0)
		return err
	}
	for name, mend := range map[string]struct {
		how    func(store.Tx) error
		meshes []string
	}{
		"it can be read": {written, []string{"bad", "good"}},
		"it is gone":     {func(tx store.Tx) error { return tx.Delete(mesh.Meshes, "", "bad", 0) }, []string{"good"}},
	} {
		t.Run(name, func(t *testing.T) {
			db := &storetest.Unreadable{Store: memstore.New()}
			update := func(how func(store.Tx) error) uint64 {
				t.Helper()
				c, err := db.Update(t.Context(), model.Config, how)
				if err != nil {
					t.Fatal(err)
				}
				return c.Revision
			}
			update(created(mesh.Meshes, "bad", secured))
			update(created(mesh.ZoneIngresses, "in", &mesh.ZoneIngress{}))
			db.Spoil(mesh.Meshes, "", "bad", true)
			views := view.New(db, nil, slog.New(slog.DiscardHandler)).InZone("west")
			defer func() { views.Close(); _ = db.Close() }()
			scope, err := views.OwnZone(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer scope.Release()
			shows := func(revision uint64, sick int, meshes ...string) {
				t.Helper()
				z, err := scope.Await(t.Context(), revision, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := maps.Collect(z.Sick()); len(got) != sick {
					t.Errorf("what cannot be read is %v", got)
				}
				if got := slices.Sorted(maps.Keys(maps.Collect(z.Meshes()))); !slices.Equal(got, meshes) {
					t.Errorf("meshes are %v, not %v", got, meshes)
				}
			}
			shows(update(created(mesh.Meshes, "good", secured)), 1, "good")
			db.Spoil(mesh.Meshes, "", "bad", false)
			shows(update(mend.how), 0, mend.meshes...)
		})
	}
}
