package assembly

import (
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/store/seal"
)

// TestRestoreOfADatabaseInItsLog: a database whose log could not be written into its file is
// not moved without the log. It would come up as the store that was backed up, and trust what
// that store knew of Redis.
func TestRestoreOfADatabaseInItsLog(t *testing.T) {
	dir := original(t)
	file, _ := backedUp(t, dir)
	into := t.TempDir()
	r := Restore{Config: &config.Config{StateDir: into}, File: file, Log: slog.New(slog.DiscardHandler), work: t.TempDir()}
	r.Config.Store.SQLite.Path = filepath.Join(into, "meshgate.db")
	m, err := backup.Unpack(file, r.work)
	if err != nil {
		t.Fatal(err)
	}
	root, err := seal.Read(filepath.Join(dir, "encryption.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	// A reader of the state before the last commit keeps the log from being emptied.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.work, backup.MainPart)+"?mode=rw")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "PRAGMA journal_mode = WAL"); err != nil {
		t.Fatal(err)
	}
	reading, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reading.QueryRowContext(t.Context(), "SELECT count(*) FROM meta").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := r.ready(t.Context(), &m, root); err == nil || !strings.Contains(err.Error(), "nothing was restored") {
		t.Errorf("with a log: %v", err)
	}
	if _, err := os.Stat(r.Config.Store.SQLite.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was placed: %v", err)
	}
	if err := errors.Join(reading.Rollback(), db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := r.ready(t.Context(), &m, root); err != nil {
		t.Errorf("once it is free: %v", err)
	}
}
