package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// rewrites counts how often the writer has written its log once more. broken makes it fail.
type rewrites struct {
	n      int
	broken bool
}

// watchRewrites begins to count. The store was just opened, and its writer has not begun.
func watchRewrites(s *sqlite) *rewrites {
	r, rewrite := &rewrites{}, s.writer.rewrite
	s.writer.rewrite = func() error {
		if r.n++; r.broken {
			return syscall.EIO
		}
		return rewrite()
	}
	return r
}

// TestLogIsSyncedAfterAnError: after a COMMIT that reported an error, no commit of any class is
// answered before the whole log is on the disk: a synchronisation that succeeds says nothing
// about what the failed one has left out.
func TestLogIsSyncedAfterAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := openNotesAt(t, path)
	r := watchRewrites(s)
	expect := func(when string, n int, names ...string) {
		t.Helper()
		if r.n != n {
			t.Errorf("%s: the log was written %d times, want %d", when, r.n, n)
		}
		if got := s.count(t); got != len(names) {
			t.Errorf("%s: %d notes, want %v", when, got, names)
		}
	}
	if err := write(t, s, "a", 1); err != nil {
		t.Fatal(err)
	}
	expect("at the start, because of the process before", 1, "a")
	if err := write(t, s, "b", 1); err != nil {
		t.Fatal(err)
	}
	expect("without an error", 1, "a", "b")
	badDisk(t, s, false)
	if err := write(t, s, "c", 1); err == nil {
		t.Error("the commit fails, and is answered with success")
	}
	expect("the error", 1, "a", "b")
	r.broken = true
	for _, class := range []model.Class{model.Config, model.Credential} {
		if _, err := s.Update(t.Context(), class, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: whispers, Name: "d", Spec: &note{}})
			return err
		}); !fault.Is(err, fault.Unstored) {
			t.Errorf("a commit of class %v is answered %v while the log cannot be written again", class, err)
		}
	}
	expect("while the disk is broken", 3, "a", "b")
	r.broken = false
	for _, name := range []string{"c", "d"} {
		if err := write(t, s, name, 1); err != nil {
			t.Error(err)
		}
	}
	expect("afterwards", 4, "a", "b", "c", "d")
}

// noCheckpoint is a connection that cannot empty the log.
type noCheckpoint struct{ connection }

// PrepareContext implements connection.
func (c noCheckpoint) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if strings.Contains(query, "wal_checkpoint") {
		return nil, errDisk
	}
	return c.connection.PrepareContext(ctx, query)
}

// TestLogIsSyncedAfterACheckpoint: emptying the log begins with its synchronisation, so an error
// of it counts like that of a COMMIT.
func TestLogIsSyncedAfterACheckpoint(t *testing.T) {
	t.Parallel()
	s := openNotes(t)
	r := watchRewrites(s)
	if err := write(t, s, "a", 1); err != nil {
		t.Fatal(err)
	}
	// Inside a transaction, the caller owns the writer.
	if _, err := s.Update(t.Context(), model.Config, func(store.Tx) error {
		whole := s.writer.session.conn
		s.writer.session.conn = noCheckpoint{whole}
		s.writer.empty()
		s.writer.session.conn = whole
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := write(t, s, "b", 1); err != nil || r.n != 2 {
		t.Errorf("%v; the log was written %d times", err, r.n)
	}
}

// TestLongLog: a log that has become long is moved into the database file, and begins anew. An
// error of that does not concern the commit that it follows, and counts like that of a COMMIT.
func TestLongLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := openNotesAt(t, path)
	r := watchRewrites(s)
	const long = 2 * moveAfter * 4096
	for _, name := range []string{"a", "b", "c", "d"} {
		if err := write(t, s, name, long); err != nil {
			t.Fatal(err)
		}
	}
	if size, err := size(path + "-wal"); err != nil || size < long || size > 2*long {
		t.Errorf("the log has %d bytes after four commits of %d, %v", size, long, err)
	}
	if _, err := s.Update(t.Context(), model.Config, func(store.Tx) error {
		const moving = "PRAGMA wal_checkpoint(PASSIVE)"
		moves := s.writer.session.stmts[moving]
		if moves == nil {
			t.Fatal("the log was never moved")
		}
		delete(s.writer.session.stmts, moving)
		s.writer.session.conn = noCheckpoint{s.writer.session.conn}
		return moves.Close()
	}); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"e", "f"} {
		if err := write(t, s, name, long); err != nil || r.n != 1+i {
			t.Errorf("%s: %v; the log was written %d times", name, err, r.n)
		}
	}
}

// TestRewriteLog: what was in the log is there afterwards, and was written.
func TestRewriteLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := openNotesAt(t, path)
	for _, name := range []string{"a", "b", "c"} {
		if err := write(t, s, name, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(path + "-wal")
	if err != nil || len(before) < 3<<20 {
		t.Fatalf("a log of %d bytes, %v", len(before), err)
	}
	old := time.Unix(1_700_000_000, 0)
	if err := os.Chtimes(path+"-wal", old, old); err != nil {
		t.Fatal(err)
	}
	if err := rewriteLog(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path + "-wal")
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%d bytes have become %d, %v", len(before), len(after), err)
	}
	if info, err := os.Stat(path + "-wal"); err != nil || info.ModTime().Equal(old) {
		t.Errorf("it was not written: %v, %v", info, err)
	}
	if n := s.count(t); n != 3 {
		t.Errorf("%d notes", n)
	}
	if err := rewriteLog(path + "-none"); err != nil {
		t.Errorf("without a log: %v", err)
	}
}
