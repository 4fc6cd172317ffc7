package assembly

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// openIn opens a control plane on free ports, with the database meshgate.db and its key in a
// directory.
func openIn(t *testing.T, dir string) *ControlPlane {
	t.Helper()
	cp, err := OpenControlPlane(t.Context(), &config.Config{
		StateDir:    dir,
		Store:       config.Store{SQLite: config.SQLite{Path: filepath.Join(dir, "meshgate.db")}, Encryption: config.Encryption{KeyFile: filepath.Join(dir, "key")}},
		DataPlane:   config.DataPlane{Listen: "127.0.0.1"},
		Diagnostics: config.Diagnostics{Listen: "127.0.0.1"}, Mesh: config.MeshPorts{Listen: "127.0.0.1"}, Admin: config.AdminPorts{Listen: "127.0.0.1"},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// TestStartWithAnUnreadableMesh: a row of a mesh that does not decode, be it the default mesh
// or another, does not keep the control plane from starting or from running on.
func TestStartWithAnUnreadableMesh(t *testing.T) {
	for _, name := range []string{mesh.Default, "other"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "meshgate.db")
			cp := openIn(t, dir)
			if _, _, err := cp.gate.As(model.System("test")).PutDocument(t.Context(), mesh.Meshes, "", "other", &mesh.Mesh{}); err != nil {
				t.Fatal(err)
			}
			cp.close(t.Context())
			spoil(t, path, name)

			cp = openIn(t, dir)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- cp.Run(ctx) }()
			// When a mesh that was written after the start is taken care of, every part has
			// looked at the meshes.
			if _, _, err := cp.gate.As(model.System("test")).PutDocument(t.Context(), mesh.Meshes, "", "later", &mesh.Mesh{MTLS: &mesh.MTLS{
				EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}},
			}}); err != nil {
				t.Fatal(err)
			}
			late := time.After(time.Minute)
			for !cp.trusts("later") {
				select {
				case err := <-ended:
					t.Fatalf("the control plane ended: %v", err)
				case <-late:
					t.Fatal("another mesh is not looked after")
				case <-time.After(5 * time.Millisecond):
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// spoil replaces the row of a mesh with one that does not decode.
func spoil(t *testing.T, path, name string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	done, err := db.ExecContext(t.Context(), `UPDATE resources SET spec = ? WHERE kind = ? AND name = ?`, []byte(`{"mtls":"of a later version"}`), mesh.Meshes.Name, name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%d rows, %v", n, err)
	}
}

// trusts reports whether the authority of a mesh is in force.
func (cp *ControlPlane) trusts(name string) bool {
	return cp.store.View(context.Background(), func(r store.Reader) error {
		_, err := r.Get(mesh.Trusts, name, name)
		return err
	}) == nil
}
