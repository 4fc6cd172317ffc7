package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestUnreadableRecord: a record that is damaged, or that another version wrote, does not
// block the others, and still says who changed what.
func TestUnreadableRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := open(t, options(t, path))
	record(t, s, recordOf(storetest.Box, "a"), recordOf(storetest.Badge, "b"), recordOf(storetest.Box, "c"))
	whole := listed(t, s)
	db, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`UPDATE changes SET detail = CAST('[1]' AS BLOB) WHERE number = 1`, `UPDATE changes SET detail = x'00' WHERE number = 2`} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range whole[:2] {
		whole[i].Title, whole[i].Members, whole[i].More, whole[i].Cause, whole[i].Count, whole[i].Unreadable = "", nil, 0, nil, 0, true
	}
	if diff := cmp.Diff(whole, listed(t, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	closeStore(t, s)
}
