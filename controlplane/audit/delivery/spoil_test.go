package delivery

import (
	"database/sql"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// spoil makes rows of a database unreadable.
func spoil(t *testing.T, path string, names ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, name := range names {
		res, err := db.ExecContext(t.Context(), `UPDATE resources SET spec = x'00' WHERE kind = 'audit_log_event' AND name = ?`, name)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); n != 1 || err != nil {
			t.Fatalf("%d rows, %v", n, err)
		}
	}
}
