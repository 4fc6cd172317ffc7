package cloudapi

import (
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// onDisk is a fixture on a database in a file.
func onDisk(t *testing.T, path string) *fixture {
	t.Helper()
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	return setupOn(t, func(now func() time.Time) store.Store {
		s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Kinds: cloud.Kinds(), Sealer: keys, Log: slog.New(slog.DiscardHandler), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// spoilRow makes a row of a database unreadable.
func spoilRow(t *testing.T, path string, kind *model.Kind, name string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	res, err := db.ExecContext(t.Context(), `UPDATE resources SET spec = x'00' WHERE kind = ? AND name = ?`, kind.Name, name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d rows of %s, %v", n, kind.Name, err)
	}
}

// TestSpoiltProgress: a webhook is shown, changed and switched off while it cannot be read how far it is. That
// counts as an end which waits, until it is delivered.
func TestSpoiltProgress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	f := onDisk(t, path)
	a := f.created("a")
	docs := f.portal("docs")
	body := fmt.Sprintf(`{"enabled":true,"audit_log_destination_id":%q}`, a)
	for _, at := range []string{docs + hookPath, ownHook} {
		f.must(200, "PATCH", at, body)
	}
	f.tried(docs, 200, false, "")
	f.tried(cloud.ControlPlaneLog, 200, false, "")
	f.must(202, "POST", ownHook+"/test", "")
	spoilt := func(kind *model.Kind) {
		t.Helper()
		_ = f.api.Store.Close()
		spoilRow(t, path, kind, strings.TrimPrefix(docs, portalsPath+"/"))
		spoilRow(t, path, kind, cloud.ControlPlaneLog)
		f = onDisk(t, path)
	}
	spoilt(cloud.Deliveries)
	for _, at := range []string{docs + hookPath, ownHook} {
		f.is(f.must(200, "GET", at, ""), "map[audit_log_destination_id:"+a+" enabled:true]")
		f.is(f.must(200, "GET", at+"/status", ""), "map[webhook_enabled:true webhook_status:active]")
		f.is(f.must(200, "PATCH", at, `{"enabled":false}`), "map[audit_log_destination_id:"+a+" enabled:false]")
	}
	const waits = "409 Conflict/The last events of the audit log are not delivered yet; they are given up after seven days"
	if got := told(f.do("DELETE", ownHook, "")); got != waits {
		t.Error(got)
	}
	spoilt(cloud.Deliveries)
	if got := told(f.do("DELETE", ownHook, "")); got != waits {
		t.Error(got)
	}
	err := f.api.Store.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(cloud.Deliveries, "", cloud.ControlPlaneLog)
		if err == nil && res.Spec.(*cloud.Delivery).Final != cloud.EventName(cloud.ControlPlaneLog, 1) {
			t.Errorf("%+v", res.Spec)
		}
		return err
	})
	if err != nil {
		t.Error(err) // a refused request has made it anew all the same
	}
	f.must(204, "DELETE", docs+hookPath, "")
}

// TestSpoiltWebhook: a webhook that cannot be read is not shown as another one, and is made anew by a change. That
// of the control plane itself may be on, so it is not emptied before, and every destination may be its own.
func TestSpoiltWebhook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	f := onDisk(t, path)
	a := f.created("a")
	docs := f.portal("docs")
	body := fmt.Sprintf(`{"enabled":true,"audit_log_destination_id":%q}`, a)
	for _, at := range []string{docs + hookPath, ownHook} {
		f.must(200, "PATCH", at, body)
	}
	_ = f.api.Store.Close()
	spoilRow(t, path, cloud.Webhooks, strings.TrimPrefix(docs, portalsPath+"/"))
	spoilRow(t, path, cloud.Webhooks, cloud.ControlPlaneLog)
	f = onDisk(t, path)
	for _, at := range []string{docs + hookPath, ownHook} {
		if status, doc := f.do("GET", at, ""); status != 500 {
			t.Errorf("%d %v", status, doc)
		}
	}
	if got := told(f.do("DELETE", ownHook, "")); got != "409 Conflict/The audit log webhook cannot be read; give it a destination first" {
		t.Error(got)
	}
	for _, body := range []string{`{"enabled":false}`, `{"enabled":true}`, `{}`} {
		if got := told(f.do("PATCH", ownHook, body)); got != "409 Conflict/The audit log webhook cannot be read; give it a destination first" {
			t.Errorf("%s: %s", body, got)
		}
	}
	if got := told(f.as("eddie", "PATCH", destinations+"/"+a, `{"name":"x"}`)); got != "403 Forbidden/You do not have permission to perform this action" {
		t.Error(got)
	}
	f.must(200, "PATCH", destinations+"/"+a, `{"name":"x"}`)
	for _, at := range []string{docs + hookPath, ownHook} {
		f.is(f.must(200, "PATCH", at, body), "map[audit_log_destination_id:"+a+" enabled:true]")
		f.is(f.must(200, "GET", at, ""), "map[audit_log_destination_id:"+a+" enabled:true]")
	}
}
