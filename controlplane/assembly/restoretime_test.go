package assembly

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The clock of the machine that restores must not end anything. It may be ahead of the clock
// of the control plane. A token that is still valid there would be removed, and could not be
// revoked any more.
func TestRestoreEndsNothing(t *testing.T) {
	dir, at := t.TempDir(), time.Now().Add(-48*time.Hour)
	clock := func() time.Time { return at }
	cp := timed(t, dir, clock)
	keyUntil(t, cp, at.Add(time.Hour))
	revokes(t, cp) // notes the time
	file, _ := backedUp(t, dir)
	cp.closers.run(context.WithoutCancel(t.Context()))
	into := filepath.Join(t.TempDir(), "new")
	if out, err := restoreAs(t, file, "--state-dir", into, "--encryption-key-file", filepath.Join(dir, "encryption.key")); err != nil {
		t.Fatal(out, err)
	}
	cp = timed(t, into, clock)
	defer cp.closers.run(context.WithoutCancel(t.Context()))
	if err := cp.store.View(t.Context(), func(r store.Reader) error {
		_, err := r.Get(gateway.Keys, model.DefaultControlPlane, "k")
		return err
	}); err != nil {
		t.Error(err)
	}
}
