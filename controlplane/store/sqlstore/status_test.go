package sqlstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

func openStatus(t testing.TB, path string) store.Status {
	t.Helper()
	s, err := sqlstore.OpenStatus(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStatusConformance(t *testing.T) {
	storetest.RunStatus(t, func(t *testing.T) (store.Status, func() store.Status) {
		path := filepath.Join(t.TempDir(), "status.db")
		return openStatus(t, path), func() store.Status { return openStatus(t, path) }
	})
}

// TestStatusFile: only the owner can read the file, and only one process can use it.
func TestStatusFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "status.db")
	s := openStatus(t, path)
	defer s.Close()
	if err := s.Put(t.Context(), []store.StatusRow{{Key: model.Key{Kind: "k", Name: "a"}, Value: []byte("v")}}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 3 {
		t.Fatalf("files %v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if other, err := sqlstore.OpenStatus(t.Context(), path); err == nil {
		other.Close()
		t.Error("a second process can open it")
	}
}

// TestStatusOfNewerVersion: a file that this program does not understand is left alone.
func TestStatusOfNewerVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.db")
	if err := openStatus(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	// The version is big-endian at offset 60 of the header (SQLite file format).
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[63] = 2
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.OpenStatus(t.Context(), path)
	if err == nil {
		s.Close()
		t.Fatal("a newer file was opened")
	}
	if !strings.Contains(err.Error(), "newer") {
		t.Errorf("error %v", err)
	}
}
