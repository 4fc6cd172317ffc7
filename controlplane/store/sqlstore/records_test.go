package sqlstore_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

func TestRetention(t *testing.T) {
	storetest.RunRetention(t, func(t *testing.T, keep store.Retention, now func() time.Time) store.Store {
		o := options(t, filepath.Join(t.TempDir(), "meshgate.db"))
		o.Retention, o.Now = keep, now
		return open(t, o)
	})
}

// recordOf is a record about a kind.
func recordOf(k *model.Kind, value string) store.ChangeRecord {
	return store.ChangeRecord{
		Actor: model.System("test"), Op: store.Updated, Key: model.Key{Kind: k.Name, Scope: "s", Name: "n"}, Sealed: k.Sealed,
		Members: []store.Member{{Path: "/label", Old: json.RawMessage(`"` + value + `"`)}},
	}
}

func record(t testing.TB, s store.Store, list ...store.ChangeRecord) {
	t.Helper()
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range list {
			tx.Record(r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func listed(t testing.TB, s store.Store) (list []store.ChangeRecord) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) (err error) {
		list, err = r.Records(store.RecordQuery{Oldest: true})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestSealedRecords: what is encrypted in a resource is encrypted in its records.
func TestSealedRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := open(t, options(t, path))
	record(t, s, recordOf(storetest.Box, "in-the-open"), recordOf(storetest.Badge, "under-seal"))
	list := listed(t, s)
	if len(list) != 2 || string(list[1].Members[0].Old) != `"under-seal"` {
		t.Fatalf("%+v", list)
	}
	closeStore(t, s)
	var all []byte
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw...)
	}
	if !bytes.Contains(all, []byte("in-the-open")) || bytes.Contains(all, []byte("under-seal")) {
		t.Error("the database holds in clear what is sealed, or not what is not")
	}
}

// TestPreviousVersion opens a database that was made before there were records: it is
// brought up to date, and says since when there are some.
func TestPreviousVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	first, err := os.ReadFile("migrations/0001_resources.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"PRAGMA journal_mode = WAL", string(first), "PRAGMA user_version = 1",
		`UPDATE meta SET value = 7 WHERE name = 'revision'`,
		`INSERT INTO events VALUES (7, 0, 'box', 's', 'old', 'created')`,
		`INSERT INTO resources (kind, scope, name, version, revision, created, modified, expires, sealed, spec)
			VALUES ('box', 's', 'old', 1, 7, 1, 1, 0, 0, CAST('{"n":5}' AS BLOB))`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(text, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, options(t, path))
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		old, err := tx.Get(storetest.Box, "s", "old")
		if err != nil || old.Spec.(*storetest.Item).N != 5 {
			return fmt.Errorf("the old resource: %+v, %w", old, err)
		}
		tx.Record(recordOf(storetest.Box, "x"))
		_, err = tx.Create(box("new", 1))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if list := listed(t, s); len(list) != 1 || list[0].Number != 1 || list[0].Previous != 7 || list[0].Revision != 8 {
		t.Errorf("%+v", list)
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		since, err := r.RecordsSince()
		if since != 7 {
			t.Errorf("all since %d", since)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotHasRecords: a backup carries them.
func TestSnapshotHasRecords(t *testing.T) {
	dir := t.TempDir()
	o := options(t, filepath.Join(dir, "meshgate.db"))
	s := open(t, o)
	record(t, s, recordOf(storetest.Badge, "under-seal"))
	copied := filepath.Join(dir, "copy.db")
	if err := os.WriteFile(copied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Snapshot(t.Context(), o.Path, copied); err != nil {
		t.Fatal(err)
	}
	restored := options(t, copied)
	restored.Restored = true
	if list := listed(t, open(t, restored)); len(list) != 1 || string(list[0].Members[0].Old) != `"under-seal"` {
		t.Errorf("%+v", list)
	}
}
