package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// create writes a box.
func create(t testing.TB, s store.Store, name string) {
	t.Helper()
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(box(name, 1))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// copied copies the one file of a database elsewhere.
func copied(t testing.TB, path string) string {
	t.Helper()
	into := filepath.Join(t.TempDir(), "meshgate.db")
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(into)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return into
}

// holds opens a database and checks that it has boxes.
func holds(t testing.TB, path string, names ...string) {
	t.Helper()
	s := open(t, options(t, path))
	defer closeStore(t, s)
	if err := s.View(t.Context(), func(r store.Reader) error {
		for _, name := range names {
			if _, err := r.Get(storetest.Box, "s", name); err != nil {
				t.Errorf("box %s: %v", name, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// emptied waits until the log of a database is empty.
func emptied(t testing.TB, path string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		info, err := os.Stat(path + "-wal")
		if err != nil || info.Size() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log still has %d bytes", info.Size())
		}
		time.Sleep(time.Millisecond)
	}
}

// TestClosedFileIsComplete copies the file of a store that was closed while another process
// was connected: SQLite empties its log only when the last connection closes.
func TestClosedFileIsComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := open(t, options(t, path))
	create(t, s, "a")
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var n int
	if err := other.QueryRow("SELECT count(*) FROM resources").Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	closeStore(t, s)
	holds(t, copied(t, path), "a")
}

// TestLogIsEmptied copies the file of a store that is open and idle. A view of an older state
// only delays the emptying.
func TestLogIsEmptied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	o := options(t, path)
	o.Checkpoint = time.Millisecond
	s := open(t, o)
	if err := s.View(t.Context(), func(store.Reader) error {
		create(t, s, "a")
		create(t, s, "b") // runs after a checkpoint that failed because of the view
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	emptied(t, path)
	holds(t, copied(t, path), "a", "b")
}

// TestStatusClosedFileIsComplete is TestClosedFileIsComplete for the status database.
func TestStatusClosedFileIsComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.db")
	s, err := sqlstore.OpenStatus(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	key := model.Key{Kind: "k", Scope: "s", Name: "n"}
	if err := s.Put(t.Context(), []store.StatusRow{{Key: key, Value: []byte("v")}}); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var n int
	if err := other.QueryRow("SELECT count(*) FROM status").Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = sqlstore.OpenStatus(t.Context(), copied(t, path)); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if v, err := s.Get(t.Context(), key); err != nil || string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
}

// TestHalfADatabase: a database that was separated from its log is refused, and both files
// are left as they are.
func TestHalfADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	o := options(t, path)
	o.Checkpoint = time.Hour
	s := open(t, o)
	create(t, s, "a")
	file := copied(t, path)
	log := filepath.Join(t.TempDir(), "meshgate.db")
	if err := os.Rename(copied(t, path+"-wal"), log+"-wal"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"without its log":  {file, "it is empty: what it held was in its log"},
		"without its file": {log, "its log " + log + "-wal holds something"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the refusal changes nothing
				if s, err := sqlstore.Open(t.Context(), options(t, c.path)); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v", err)
					if err == nil {
						closeStore(t, s)
					}
				}
			}
		})
	}
}

// TestSnapshot makes a snapshot of a busy store. It holds everything that was acknowledged
// before.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := open(t, options(t, path))
	create(t, s, "a")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = s.Update(ctx, model.Config, func(tx store.Tx) error {
				_, err := tx.Create(box("x"+time.Now().Format("150405.000000000"), 1))
				return err
			})
		}
	}()
	into := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(into, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := sqlstore.Snapshot(t.Context(), path, into)
	stop()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	before, err := sqlstore.Describe(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(into); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	holds(t, into, "a")
	same, err := sqlstore.Describe(t.Context(), into)
	if err != nil || same.Incarnation != before.Incarnation || same.Incarnation == "" || same.Revision == 0 || same.Revision > before.Revision {
		t.Errorf("%+v, %v; the original %+v", same, err, before)
	}
	o := options(t, into)
	o.Restored = true
	closeStore(t, open(t, o))
	other, err := sqlstore.Describe(t.Context(), into)
	if err != nil || other.Incarnation == same.Incarnation || other.Revision != same.Revision {
		t.Errorf("%+v, %v", other, err)
	}
	if err := sqlstore.Snapshot(t.Context(), path+"x", into); err == nil {
		t.Error("a snapshot of nothing")
	}
	if _, err := os.Stat(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}
