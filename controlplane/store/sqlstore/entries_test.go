package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// sameEntries compares what rows of a database say of their index entries with the entries
// that are there. It returns those that are on one side only.
func sameEntries(ctx context.Context, path string) (odd string, err error) {
	file := url.URL{Scheme: "file", Path: path}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return "", err
	}
	defer db.Close()
	var text sql.NullString
	err = db.QueryRowContext(ctx, `
		WITH said AS (
			SELECT r.id, r.kind, r.scope, CASE e.value ->> 0 WHEN 'u' THEN '' ELSE r.name END AS name,
				e.value ->> 0 AS a, e.value ->> 1 AS b, e.value ->> 2 AS c, e.value ->> 3 AS d, e.value ->> 4 AS e
			FROM resources r, json_each(r.entries) e
		), there AS (
			SELECT id, kind, scope, '' AS name, 'u' AS a, field AS b, value AS c, NULL AS d, NULL AS e FROM uniques
			UNION ALL SELECT id, kind, scope, name, 'r', to_kind, to_scope, to_name, field FROM refs
			UNION ALL SELECT id, kind, scope, name, 'l', field, value, NULL, NULL FROM lists
		)
		SELECT group_concat(id || ' ' || kind || ' ' || a || ' ' || b || ' ' || c, ', ') FROM (
			SELECT * FROM (SELECT * FROM said EXCEPT SELECT * FROM there)
			UNION ALL SELECT * FROM (SELECT * FROM there EXCEPT SELECT * FROM said)
		)`).Scan(&text)
	return text.String, err
}

// TestEntriesOfBefore opens a database whose rows did not say which index entries they have.
// All of them go with their rows, also with one that nobody can decode.
func TestEntriesOfBefore(t *testing.T) {
	row := func(id int, kind, name, spec string) string {
		return fmt.Sprintf(`INSERT INTO resources (id, kind, scope, name, version, revision, created, modified, expires, sealed, spec, created_revision)
			VALUES (%d, '%s', 's', '%s', 1, 1, 1, 1, 0, 0, CAST('%s' AS BLOB), 1)`, id, kind, name, spec)
	}
	ref := func(to, name, kind, field string, refuse, id int) string {
		return fmt.Sprintf(`INSERT INTO refs (to_kind, to_scope, to_name, kind, field, scope, name, refuse, id) VALUES ('%s', 's', '%s', '%s', '%s', 's', 'r%d', %d, %d)`,
			to, name, kind, field, id, refuse, id)
	}
	path := previous(t, 6, `UPDATE meta SET value = 1 WHERE name = 'revision'`,
		row(1, "box", "r1", `{"label":"a \"<b>\"","tags":["x","y"]}`),
		row(2, "box", "r2", `{"label":1}`),
		row(3, "thing", "r3", `{}`),
		row(4, "thing", "r4", `{"box":"r1","parent":"r3"}`),
		row(5, "thing", "r5", `{"parent":1}`),
		`INSERT INTO uniques (kind, scope, field, value, id) VALUES ('box', 's', 'label', 'a "<b>"', 1), ('box', 's', 'label', 'unread', 2)`,
		`INSERT INTO lists (kind, scope, field, value, name, id) VALUES ('box', 's', 'tags', 'x', 'r1', 1), ('box', 's', 'tags', 'y', 'r1', 1)`,
		ref("box", "r1", "thing", "box", 1, 4), ref("thing", "r3", "thing", "parent", 0, 4), ref("thing", "r3", "thing", "parent", 0, 5),
	)
	o := options(t, path)
	s := open(t, o)
	if err := s.View(t.Context(), func(r store.Reader) error {
		if found, err := r.Find(storetest.Box, "s", "label", `a "<b>"`); err != nil || found.Name != "r1" {
			t.Errorf("found %v, %v", found, err)
		}
		n, err := r.Count(storetest.Box, store.Query{Scope: "s", Index: "tags", Value: "y"})
		if n != 1 {
			t.Errorf("%d are listed", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if odd, err := sameEntries(t.Context(), path); odd != "" || err != nil {
		t.Errorf("differing: %s, %v", odd, err)
	}
	s = open(t, o)
	commit, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		if err := tx.Delete(storetest.Thing, "s", "r3", 0); err != nil {
			return err
		}
		for _, name := range []string{"r1", "r2"} {
			if err := tx.Delete(storetest.Box, "s", name, 0); err != nil {
				return err
			}
		}
		_, err := tx.Create(&model.Resource{Kind: storetest.Box, Scope: "s", Name: "new", Spec: &storetest.Item{Label: "unread"}})
		return err
	})
	if err != nil || len(commit.Changes) != 6 {
		t.Errorf("%+v, %v", commit.Changes, err)
	}
	closeStore(t, s)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var left string
	if err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM uniques) || ' ' || (SELECT count(*) FROM refs) || ' ' || (SELECT count(*) FROM lists)`).Scan(&left); err != nil || left != "1 0 0" {
		t.Errorf("entries are left: %s, %v", left, err)
	}
}
