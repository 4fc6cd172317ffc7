package assembly

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestUnusableSigningKeyIsACondition: /ready names a key that cannot be decrypted or is not a
// key, and its mesh, because nodes with its tokens are refused. The condition ends when the
// keys are gone.
func TestUnusableSigningKeyIsACondition(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "meshgate.db")
	openIn(t, dir).close(t.Context())
	unseal(t, path, mesh.TokenSigningKey+"default-1")

	cp := openIn(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cp.Run(ctx) }()
	until := func(state health.State, parts ...string) {
		t.Helper()
		deadline := time.After(conditionPatience)
		for {
			_, a := readyOf(t, cp)
			c := conditionOf(a, conditionSigningKeys)
			fits := c.State == state
			for _, p := range parts {
				fits = fits && strings.Contains(c.Text, p)
			}
			if fits {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-deadline:
				t.Fatalf("%+v", c)
			}
		}
	}
	until(health.Degraded, "signing key 1 of mesh default cannot be used")
	gate := cp.gate.As(model.System("test"))
	bad := mesh.TokenSigningKey + "default-2"
	if _, _, err := gate.PutDocument(t.Context(), mesh.Secrets, "default", bad, &mesh.Secret{Data: []byte("no key")}); err != nil {
		t.Fatal(err)
	}
	until(health.Degraded, "signing key 1 of mesh default, 2 of mesh default cannot")
	for _, name := range []string{bad, mesh.TokenSigningKey + "default-1"} {
		if _, err := gate.DeleteDocument(t.Context(), mesh.Secrets, "default", name); err != nil {
			t.Fatal(err)
		}
	}
	until(health.OK)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// unseal replaces the row of a secret with bytes that no key decrypts.
func unseal(t *testing.T, path, name string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	done, err := db.ExecContext(t.Context(), `UPDATE resources SET spec = ? WHERE kind = ? AND name = ?`, []byte("sealed by somebody else"), mesh.Secrets.Name, name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%d rows, %v", n, err)
	}
}
