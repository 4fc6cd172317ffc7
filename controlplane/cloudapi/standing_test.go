package cloudapi

import (
	"database/sql"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// TestUnreadableStanding: that it cannot be read when a control plane was changed last keeps nobody from
// changing it, and is over with the next change; nor does it keep anybody from deleting the control plane,
// in however many transactions.
func TestUnreadableStanding(t *testing.T) {
	dir := t.TempDir()
	keys, err := seal.Make(filepath.Join(dir, "encryption.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "meshgate.db")
	open := func() store.Store {
		t.Helper()
		s, err := sqlstore.Open(t.Context(), sqlstore.Options{
			Path: path, Kinds: slices.Concat(cloud.Kinds(), gateway.Kinds()), Sealer: keys, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return epoch },
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	few(t)
	f := setupPlanesIn(t, open())
	a, b := f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	for _, plane := range []string{a, b} {
		if status, body := f.raw("admin", "POST", entities(plane)+"/services", `{"name":"before","host":"h.test"}`); status != 201 {
			t.Fatal(status, body)
		}
	}
	if _, err := f.gate.As(model.System("test")).Write(t.Context(), model.Config, func(tx store.Tx) error { return fill(tx, b) }); err != nil {
		t.Fatal(err)
	}
	before := f.expects(200, "GET", controlPlanes+"/"+a+"/expected-config-hash", "")["expected_hash"]
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	spoilStandings(t, path, 2)

	f = setupPlanesIn(t, open())
	if now := f.expects(200, "GET", controlPlanes+"/"+a+"/expected-config-hash", "")["expected_hash"]; now != before {
		t.Errorf("the hash of what has not changed is %v, not %v", now, before)
	}
	f.expects(200, "GET", controlPlanes+"/"+a+"/nodes", "")
	if status, body := f.raw("admin", "POST", entities(a)+"/services", `{"name":"after","host":"h.test"}`); status != 201 {
		t.Errorf("a change: %d %s", status, body)
	}
	if after := f.expects(200, "GET", controlPlanes+"/"+a+"/expected-config-hash", "")["expected_hash"]; after == nil || after == before {
		t.Errorf("the hash after a change is %v, before it %v", after, before)
	}
	f.expects(204, "DELETE", controlPlanes+"/"+b, "")
	f.expects(404, "GET", controlPlanes+"/"+b, "")
	if err := f.store.View(t.Context(), func(r store.Reader) error {
		rows, err := store.ListAll(r, cloud.Standings, store.Query{})
		for _, row := range rows {
			if row.Name == b || store.IsUnread(row) {
				t.Errorf("there is %+v", row)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// spoilStandings makes all standings of a database unreadable, of which there are so many.
func spoilStandings(t *testing.T, path string, want int64) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	done, err := db.ExecContext(t.Context(), `UPDATE resources SET spec = CAST('[1]' AS BLOB) WHERE kind = ?`, cloud.Standings.Name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := done.RowsAffected(); n != want || err != nil {
		t.Fatalf("%d rows, %v", n, err)
	}
}
