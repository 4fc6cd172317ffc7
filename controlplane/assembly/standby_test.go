package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
)

// standing are the settings of control planes on one database, each with a state directory of its own, and all with
// the same port.
func standing(t *testing.T, database string, at int) *config.Config {
	t.Helper()
	dir := t.TempDir()
	local := config.MeshPorts{Listen: "127.0.0.1"}
	return &config.Config{
		StateDir:    dir,
		Store:       config.Store{Type: "sqlite", Standby: true, SQLite: config.SQLite{Path: database}, Encryption: config.Encryption{KeyFile: database + ".key"}},
		DataPlane:   config.DataPlane{Listen: "127.0.0.1", Port: at},
		Diagnostics: config.Diagnostics{Listen: "127.0.0.1"}, Mesh: local, Admin: config.AdminPorts{Listen: "127.0.0.1"},
	}
}

// saying is a log that tells of each line.
type saying chan string

func (s saying) Write(p []byte) (int, error) { s <- string(p); return len(p), nil }

// TestStandby: a control plane on a database that another one has opens nothing before that one has ended, and has
// then all that it left.
func TestStandby(t *testing.T) {
	database, at := filepath.Join(t.TempDir(), "meshgate.db"), freePort(t)
	quiet := slog.New(slog.DiscardHandler)
	first, err := OpenControlPlane(t.Context(), standing(t, database, at), quiet)
	if err != nil {
		t.Fatal(err)
	}
	says := make(saying, 1000)
	type opened struct {
		cp  *ControlPlane
		err error
	}
	got := make(chan opened, 1)
	go func() {
		cp, err := OpenControlPlane(t.Context(), standing(t, database, at), slog.New(slog.NewTextHandler(says, nil)))
		got <- opened{cp, err}
	}()
	if line := <-says; !strings.Contains(line, "another control plane has the store "+database+"; standing by") {
		t.Errorf("it says %s", line)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := OpenControlPlane(ended, standing(t, database, at), quiet); !errors.Is(err, ErrStoodBy) {
		t.Errorf("one that is told to end: %v", err)
	}
	authority := string(first.authority.PEM())
	if _, err := (keyring{first}).Rotate(model.WithActor(t.Context(), model.User("ann")), meshapi.KeysAudit, meshapi.KeyRotation{}); err != nil {
		t.Fatal(err)
	}
	audited := fmt.Sprint(first.cloud.signer.Keys())
	first.close(t.Context())
	second := <-got
	if second.err != nil {
		t.Fatal(second.err)
	}
	if string(second.cp.authority.PEM()) != authority || port(second.cp.ports.data) != at {
		t.Error("it is another control plane")
	}
	if got := fmt.Sprint(second.cp.cloud.signer.Keys()); got != audited || len(second.cp.cloud.keys.Keys()) != 2 {
		t.Errorf("%s sign audit events, and not %s", got, audited)
	}
	if line := <-says; !strings.Contains(line, "the other control plane has ended; taking over") {
		t.Errorf("it says %s", line)
	}
	second.cp.close(t.Context())
}

// TestStandbyAtAStateDirectory: the same settings stand by for each other, too.
func TestStandbyAtAStateDirectory(t *testing.T) {
	c := standing(t, "meshgate.db", 0)
	first, err := AwaitStateDir(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	says := make(saying, 1)
	log := slog.New(slog.NewTextHandler(says, nil))
	go func() { <-says; end() }()
	if _, err := AwaitStateDir(ended, c, log); !errors.Is(err, ErrStoodBy) {
		t.Errorf("one that is told to end: %v", err)
	}
	_ = first.Close()
	again, err := AwaitStateDir(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	c.Store.Standby = false
	if _, err := AwaitStateDir(t.Context(), c, log); err == nil || !strings.Contains(err.Error(), "it is in use by another meshgate") {
		t.Errorf("one that does not stand by: %v", err)
	}
	_ = again.Close()
}
