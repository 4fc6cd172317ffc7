package assembly

import (
	"log/slog"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestSkipMeshCreation: the default mesh is there from the start, unless the operator wants none.
func TestSkipMeshCreation(t *testing.T) {
	for _, skip := range []bool{false, true} {
		const local = "127.0.0.1"
		cp, err := OpenControlPlane(t.Context(), &config.Config{
			StateDir: t.TempDir(), Store: config.Store{Type: "memory"}, Defaults: config.Defaults{SkipMeshCreation: skip},
			DataPlane: config.DataPlane{Listen: local}, Diagnostics: config.Diagnostics{Listen: local}, Mesh: config.MeshPorts{Listen: local},
			Admin: config.AdminPorts{Listen: local},
		}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		err = cp.store.View(t.Context(), func(r store.Reader) error {
			_, err := r.Get(mesh.Meshes, "", mesh.Default)
			return err
		})
		if fault.Is(err, fault.NotFound) != skip {
			t.Errorf("skipped %t: %v", skip, err)
		}
		cp.close(t.Context())
	}
}
