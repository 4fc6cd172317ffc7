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

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	storetest.RunRetention(t, func(t *testing.T, keep store.Retention, now func() time.Time) (store.Store, func() store.Store) {
		o := options(t, filepath.Join(t.TempDir(), "meshgate.db"))
		o.Retention, o.Now = keep, now
		s := open(t, o)
		return s, func() store.Store {
			closeStore(t, s)
			s = open(t, o)
			return s
		}
	})
}

func TestPast(t *testing.T) {
	storetest.RunPast(t, func(t *testing.T, keep store.Retention, now, past func() time.Time) store.Store {
		o := options(t, filepath.Join(t.TempDir(), "meshgate.db"))
		o.Retention, o.Now, o.Past = keep, now, past
		return open(t, o)
	})
}

// recordOf returns a record about a resource of a kind.
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

// TestSealedRecords: values that are encrypted in a resource are encrypted in its records.
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

// previous makes a database with the first n versions of the schema.
func previous(t *testing.T, n int, statements ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "meshgate.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) <= n {
		t.Fatal(files, err)
	}
	texts := []string{"PRAGMA journal_mode = WAL"}
	for _, f := range files[:n] {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	for _, text := range append(append(texts, fmt.Sprint("PRAGMA user_version = ", n)), statements...) {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(text, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// sinceOf returns the revision since which all records of a query exist.
func sinceOf(t *testing.T, s store.Store, q store.RecordQuery) (since uint64) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) (err error) {
		since, err = r.RecordsSince(q)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return since
}

// TestPreviousVersion opens a database from before there were records. It is upgraded, and
// tells since when records exist.
func TestPreviousVersion(t *testing.T) {
	s := open(t, options(t, previous(t, 1,
		`UPDATE meta SET value = 7 WHERE name = 'revision'`,
		`INSERT INTO events VALUES (7, 0, 'box', 's', 'old', 'created')`,
		`INSERT INTO resources (kind, scope, name, version, revision, created, modified, expires, sealed, spec)
			VALUES ('box', 's', 'old', 1, 7, 1, 1, 0, 0, CAST('{"n":5}' AS BLOB))`)))
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
	if since := sinceOf(t, s, store.RecordQuery{}); since != 7 {
		t.Errorf("all since %d", since)
	}
}

// TestRecordsOfOneBudget opens a database in which records of proxies and of operators shared
// one budget. Each record gets its own budget, and surplus ones of proxies are dropped.
func TestRecordsOfOneBudget(t *testing.T) {
	var rows []string
	for i, by := range [][3]string{
		{"user", "ann", "api"}, {"node", "default.web", "proxy"}, {"system", "removal", ""}, {"system", "rotation", ""}, {"node", "default.web", "proxy"},
	} {
		n := i + 11 // the oldest ten are gone
		rows = append(rows, fmt.Sprintf(`INSERT INTO changes VALUES (%d, %d, %d, %d, '%s', '%s', '%s', 'updated', 'box', 1, 's', 'n', 0, CAST('{}' AS BLOB))`,
			n, n-1, n, time.Now().UnixMicro(), by[0], by[1], by[2]))
	}
	o := options(t, previous(t, 2, append(rows, `UPDATE meta SET value = 15 WHERE name = 'revision'`, `UPDATE meta SET value = 10 WHERE name = 'changes_since'`)...))
	o.Retention.Rows = 20 // this leaves two for proxies
	s := open(t, o)
	record(t, s, recordOf(storetest.Box, "x"))
	var got []string
	for _, r := range listed(t, s) {
		got = append(got, fmt.Sprint(r.Number, " ", r.Actor.ID()))
	}
	want := []string{"11 user:ann", "13 system:removal", "14 system:rotation", "15 node:default.web", "16 system:test"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if of, all := sinceOf(t, s, store.RecordQuery{ActorKind: model.ActorUser}), sinceOf(t, s, store.RecordQuery{}); of != 10 || all != 12 {
		t.Errorf("all of users since %d, all since %d", of, all)
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		since := uint64(13)
		for want, q := range map[int]store.RecordQuery{5: {}, 3: {Since: &since}} {
			if n, err := r.CountRecords(q); n != want || err != nil {
				t.Errorf("%+v: %d, %v", q, n, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestRecordsOfTokensOfBefore opens a database in which records of tokens shared the budget
// of operators. They get their own budget, records of proxies stay, and nothing is lost.
func TestRecordsOfTokensOfBefore(t *testing.T) {
	var rows []string
	for i, of := range []struct {
		kind   string
		budget int
	}{{"box", 0}, {"oauth2_token", 0}, {"oauth2_token", 1}, {"oauth2_token", 0}, {"box", 0}} {
		n := i + 11 // the oldest ten are gone
		rows = append(rows, fmt.Sprintf(`INSERT INTO changes VALUES (%d, %d, %d, %d, 'user', 'ann', 'api', 'deleted', '%s', 1, 's', 'n', 0, CAST('{}' AS BLOB), %d, %d)`,
			n, n-1, n, time.Now().UnixMicro(), of.kind, of.budget, n))
	}
	s := open(t, options(t, previous(t, 3, append(rows, `UPDATE meta SET value = 15 WHERE name = 'revision'`, `UPDATE meta SET value = 10 WHERE name = 'changes_since'`)...)))
	record(t, s, recordOf(storetest.Box, "x"))
	numbers := func(q store.RecordQuery) (out []uint64) {
		t.Helper()
		if err := s.View(t.Context(), func(r store.Reader) error {
			list, err := r.Records(q)
			for _, rec := range list {
				out = append(out, rec.Number)
			}
			if n, err := r.CountRecords(q); n != len(list) || err != nil {
				t.Errorf("%+v: counts %d of %d, %v", q, n, len(list), err)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct {
		q    store.RecordQuery
		want []uint64
	}{
		{store.RecordQuery{Oldest: true}, []uint64{11, 13, 15, 16}},
		{store.RecordQuery{Oldest: true, Fleeting: true}, []uint64{11, 12, 13, 14, 15, 16}},
		{store.RecordQuery{Oldest: true, Kind: "oauth2_token"}, []uint64{12, 13, 14}},
	} {
		if diff := cmp.Diff(c.want, numbers(c.q)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.q, diff)
		}
		if since := sinceOf(t, s, c.q); since != 10 {
			t.Errorf("%+v: all since %d", c.q, since)
		}
	}
}

// TestSnapshotHasRecords: a backup contains the records.
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
