package lifecycle_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestRecordsOfAMesh: records of resources that are created or deleted with a mesh say so,
// and name the mesh.
func TestRecordsOfAMesh(t *testing.T) {
	w := setup(t)
	w.must(w.put(mesh.Meshes, "", "m", builtin("", "ca-1")))
	_, err := w.gate.DeleteDocument(t.Context(), mesh.Meshes, "", "m")
	w.must(err)
	var got []string
	w.must(w.store.View(t.Context(), func(r store.Reader) error {
		list, err := r.Records(store.RecordQuery{Oldest: true})
		for _, rec := range list {
			line := string(rec.Op) + " " + rec.Key.Kind + " " + rec.Key.Name
			if rec.Cause != nil {
				line += " with " + rec.Cause.Kind + " " + rec.Cause.Name
			}
			if rec.Actor.ID() != model.System("test").ID() || rec.Origin != "" {
				t.Errorf("%s by %s, %q", line, rec.Actor.ID(), rec.Origin)
			}
			got = append(got, line)
		}
		return err
	}))
	w.same([]string{
		"created mesh m",
		"created mesh_secret m.ca-builtin-cert-ca-1 with mesh m", "created mesh_secret m.ca-builtin-key-ca-1 with mesh m",
		"created mesh_secret dataplane-token-signing-key-m-1 with mesh m",
		"created permission allow-all-m with mesh m", "created timeout timeout-all-m with mesh m",
		"deleted mesh_secret dataplane-token-signing-key-m-1 with mesh m",
		"deleted mesh_secret m.ca-builtin-cert-ca-1 with mesh m", "deleted mesh_secret m.ca-builtin-key-ca-1 with mesh m",
		"deleted permission allow-all-m with mesh m", "deleted timeout timeout-all-m with mesh m",
		"deleted mesh m",
	}, got)
}
