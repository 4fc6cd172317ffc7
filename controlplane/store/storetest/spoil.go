package storetest

import (
	"database/sql"
	"fmt"
	"testing"
)

// Spoil makes rows of a database undecodable, as if a later version of the program had
// written them. The store may be open. The driver comes with the store's package, which the
// test binary imports.
func Spoil(t testing.TB, path, kind string, names ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		var res sql.Result
		var n int64
		if res, err = db.ExecContext(t.Context(), `UPDATE resources SET spec = CAST('[1]' AS BLOB) WHERE kind = ? AND name = ?`, kind, name); err == nil {
			n, err = res.RowsAffected()
		}
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows are %s %q", n, kind, name)
		}
		if err != nil {
			break
		}
	}
	if closed := db.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
}
