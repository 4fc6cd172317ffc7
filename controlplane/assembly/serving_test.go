package assembly

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/identity"
)

// startServing runs a control plane with all its ports, on free ones of this machine, and with
// everything that the settings leave open: a store in memory, in a directory of the test. It ends
// with the test.
func startServing(t *testing.T, c config.Config, log *slog.Logger) *ControlPlane {
	t.Helper()
	const local = "127.0.0.1"
	if c.StateDir == "" {
		c.StateDir = t.TempDir()
	}
	if c.Store.Type == "" {
		c.Store.Type = "memory"
	}
	if c.Store.Type == "sqlite" {
		c.Store.SQLite.Path, c.Store.Encryption.KeyFile = filepath.Join(c.StateDir, "meshgate.db"), filepath.Join(c.StateDir, "key")
	}
	c.DataPlane.Listen, c.Diagnostics.Listen, c.Mesh.Listen, c.Admin.Listen = local, local, local, local
	c.Dataplane.RemoveAfter = time.Minute
	cp, err := OpenControlPlane(t.Context(), &c, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- cp.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return cp
}

// userToken issues the token of a user.
func userToken(t *testing.T, cp *ControlPlane, name string, groups ...string) string {
	t.Helper()
	token, err := cp.people.IssueUser(t.Context(), identity.UserTokenRequest{Name: name, Groups: groups, ValidFor: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	return token
}
