package cloudapi

import (
	"database/sql"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// TestStatusWithASpoiltCredential: one credential of a member that cannot be read keeps nobody from seeing the
// conflicts of the others; without one, nothing is said to be well.
func TestStatusWithASpoiltCredential(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	open := func() *planeFixture {
		t.Helper()
		s, err := sqlstore.Open(t.Context(), sqlstore.Options{
			Path: path, Kinds: slices.Concat(cloud.Kinds(), gateway.Kinds()), Sealer: keys, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return epoch },
		})
		if err != nil {
			t.Fatal(err)
		}
		return setupPlanesIn(t, s)
	}
	f := open()
	group, a, b := f.plane("group", cloud.TypeGroup), f.plane("aa", cloud.TypeHybrid), f.plane("bb", cloud.TypeHybrid)
	f.expects(204, "PUT", controlPlanes+"/"+group+"/group-memberships", members(a, b))
	post := func(plane, path, body string) {
		t.Helper()
		if status, text := f.raw("admin", "POST", entities(plane)+path, body); status != 201 {
			t.Fatal(status, text)
		}
	}
	for plane, user := range map[string]string{a: "anna", b: "bert"} {
		post(plane, "/consumers", `{"username":"`+user+`"}`)
		post(plane, "/consumers/"+user+"/key-auth", `{"key":"alone-`+user+`"}`)
	}
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	done, err := db.ExecContext(t.Context(), `UPDATE resources SET spec = x'00' WHERE kind = ? AND scope = ?`, gateway.Keys.Name, cloud.ScopeOf(a))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d rows, %v", n, err)
	}
	_ = db.Close()
	f = open()
	f.fleet.followed[group] = true
	is := func(state string, conflicts int) {
		t.Helper()
		item := f.expects(200, "GET", controlPlanes+"/"+group+"/group-status", "")["item"].(map[string]any)
		if item["state"] != state || len(item["conflicts"].([]any)) != conflicts {
			t.Errorf("%v", item)
		}
	}
	is("UNKNOWN", 0)
	for plane, user := range map[string]string{a: "anna", b: "bert"} {
		post(plane, "/consumers/"+user+"/key-auth", `{"key":"shared-key"}`)
	}
	is("CONFLICT", 2)
}
