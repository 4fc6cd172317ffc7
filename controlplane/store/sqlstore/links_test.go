package sqlstore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestLinksToOneFileHaveOneLock: only one process can use a database, whichever links lead to
// it. This holds before the file exists, too.
func TestLinksToOneFileHaveOneLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"data", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"dir": "data", "one.db": filepath.Join(dir, "data", "real.db"), "two.db": "dir/real.db", "other/three.db": "../two.db",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{"one.db", "two.db", "other/three.db", "dir/real.db", "data/real.db"}
	for _, first := range paths {
		held, err := Open(t.Context(), Options{Path: filepath.Join(dir, first), Kinds: []*model.Kind{mortals}})
		if err != nil {
			t.Fatal(err)
		}
		for _, second := range paths {
			s, err := Open(t.Context(), Options{Path: filepath.Join(dir, second), Kinds: []*model.Kind{mortals}})
			if err == nil {
				t.Errorf("%s is opened while %s is open", second, first)
				_ = s.Close() // it should not be open
			}
		}
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, path := range paths {
		if there, err := Present(filepath.Join(dir, path)); !there || err != nil {
			t.Errorf("%s: %t %v", path, there, err)
		}
	}
	log := filepath.Join(dir, "data", "real.db-wal")
	if err := os.WriteFile(log, []byte("rows"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if err := Whole(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s is whole without its log", path)
		}
	}
}

// TestLinksToOneStatus is the same test for the status database.
func TestLinksToOneStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "status.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink("status.db", link); err != nil {
		t.Fatal(err)
	}
	held, err := OpenStatus(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := OpenStatus(t.Context(), path); err == nil {
		t.Error("it is opened while a link to it is open", s.Close())
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
}

// TestLinkInACircle: a link that leads to itself is refused.
func TestLinkInACircle(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.Symlink("a.db", path); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), Options{Path: path, Kinds: []*model.Kind{mortals}}); err == nil {
		t.Error("opened", s.Close())
	}
}
