package assembly

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
)

// stateOf makes a control plane on a directory of which a test opens only the store.
func stateOf(t *testing.T, dir string) (*ControlPlane, *written) {
	t.Helper()
	l, err := config.Load(config.Sources{Flags: map[string]string{"stateDir": dir}})
	if err != nil {
		t.Fatal(err)
	}
	log := &written{}
	cp := &ControlPlane{cfg: &l.Config, Log: slog.New(slog.NewTextHandler(log, nil)), meters: newMeters(slog.DiscardHandler)}
	cp.ready.conditions = newConditions(cp.Log)
	cp.clocks = newClocks(cp.ready.conditions, steady.New(nil))
	return cp, log
}

// written collects the log, for tests that read while others write.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// String returns the text so far.
func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// filesOf returns the files of a directory with their digests.
func filesOf(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][32]byte{}
	for _, f := range list {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name()] = sha256.Sum256(data)
	}
	return files
}

// TestKeyAndDatabase opens state directories in which the key or the database is missing or
// replaced. A refusal writes nothing.
func TestKeyAndDatabase(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, seal.RootSize))
	for name, c := range map[string]struct {
		change        func(t *testing.T, dir string, cp *ControlPlane)
		refused, says string
	}{
		"both": {change: func(*testing.T, string, *ControlPlane) {}},
		"no key": {
			change:  func(t *testing.T, dir string, _ *ControlPlane) { remove(t, filepath.Join(dir, "encryption.key")) },
			refused: "put the key file back at DIR/encryption.key, or set MESHGATE_STORE_ENCRYPTION_KEY",
		},
		"another key": {
			change:  func(t *testing.T, dir string, _ *ControlPlane) { write(t, filepath.Join(dir, "encryption.key"), other) },
			refused: "database DIR/meshgate.db was written with another key than that of the file DIR/encryption.key: put the right key there",
		},
		"another key in the environment": {
			change:  func(_ *testing.T, _ string, cp *ControlPlane) { cp.cfg.Store.Encryption.Key = other },
			refused: "than that of the setting store.encryption.key (environment MESHGATE_STORE_ENCRYPTION_KEY)",
		},
		"no database": {
			change: func(t *testing.T, dir string, _ *ControlPlane) { remove(t, filepath.Join(dir, "meshgate.db")) },
			says:   "there is an encryption key but no database",
		},
		"no database, and the key is a setting": {
			change: func(t *testing.T, dir string, cp *ControlPlane) {
				remove(t, filepath.Join(dir, "meshgate.db"))
				remove(t, filepath.Join(dir, "encryption.key"))
				cp.cfg.Store.Encryption.Key = other
			},
			says: "there is an encryption key but no database",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fresh, log := stateOf(t, dir)
			if err := fresh.openStore(t.Context()); err != nil {
				t.Fatal(err)
			}
			fresh.close(t.Context())
			if len(log.String()) > 0 {
				t.Errorf("a fresh directory is worth a word: %s", log)
			}
			cp, log := stateOf(t, dir)
			c.change(t, dir, cp)
			before := filesOf(t, dir)
			err := cp.openStore(t.Context())
			cp.close(t.Context())
			if !strings.Contains(log.String(), c.says) {
				t.Errorf("log: %s", log)
			}
			if c.refused == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(c.refused, "DIR", dir)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, c.refused)
			}
			if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}

// stalledClose is a store that does not close until goOn is closed.
type stalledClose struct {
	store.Store
	goOn chan struct{}
}

// Close implements [store.Store].
func (s *stalledClose) Close() error {
	<-s.goOn
	return s.Store.Close()
}

// TestEndOnAStalledDisk: the end of a control plane waits for its store as long as it may, and
// no longer. The database stays locked until it is closed.
func TestEndOnAStalledDisk(t *testing.T) {
	dir := t.TempDir()
	cp, log := stateOf(t, dir)
	if err := cp.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	stalled := &stalledClose{cp.store, make(chan struct{})}
	cp.store = stalled
	over, cancel := context.WithCancel(t.Context())
	cancel()
	cp.closers.run(over)
	if !strings.Contains(log.String(), "the next start is as after a kill") {
		t.Errorf("the log says:\n%s", log)
	}
	next, _ := stateOf(t, dir)
	if err := next.openStore(t.Context()); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("a successor opens the database: %v", err)
	}
	close(stalled.goOn)
	_ = cp.store.Close() // waits for the one that is under way
	if err := next.openStore(t.Context()); err != nil {
		t.Errorf("when it is closed: %v", err)
	}
	next.closers.run(t.Context())
}
