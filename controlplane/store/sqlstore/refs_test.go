package sqlstore_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// beforeScopes makes a database of the version in which references named rows of their own
// scope: in each of two scopes a thing that goes with its parent, one that cannot be
// decoded and does so, too, and one that holds a box.
func beforeScopes(t *testing.T) (path string) {
	var statements []string
	id := 0
	row := func(scope, kind, name, spec string, refs ...string) {
		id++
		statements = append(statements, fmt.Sprintf(`INSERT INTO resources (id, kind, scope, name, version, revision, created, modified, expires, sealed, spec)
			VALUES (%d, '%s', '%s', '%s', 1, 1, 1, 1, 0, 0, CAST('%s' AS BLOB))`, id, kind, scope, name, spec))
		for _, ref := range refs {
			statements = append(statements, fmt.Sprintf(`INSERT INTO refs (to_kind, scope, to_name, kind, field, name, refuse, id) VALUES (%s, %d)`, ref, id))
		}
	}
	for _, scope := range []string{"a", "b"} {
		row(scope, "box", "box", `{}`)
		row(scope, "thing", "p", `{}`)
		row(scope, "thing", "t", `{"parent":"p"}`, `'thing', '`+scope+`', 'p', 'thing', 'parent', 't', 0`)
		row(scope, "thing", "unread", `{"parent":1}`, `'thing', '`+scope+`', 'p', 'thing', 'parent', 'unread', 0`)
		row(scope, "thing", "holder", `{"box":"box"}`, `'box', '`+scope+`', 'box', 'thing', 'box', 'holder', 1`)
	}
	return previous(t, 4, append(statements, `UPDATE meta SET value = 1 WHERE name = 'revision'`)...)
}

// TestReferencesOfBefore opens a database, and a backup of one, in which references named
// no scopes: each is one of its own scope, and beside it there is room for one to another.
func TestReferencesOfBefore(t *testing.T) {
	path := beforeScopes(t)
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(copied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Snapshot(t.Context(), path, copied); err != nil {
		t.Fatal(err)
	}
	restored := options(t, copied)
	restored.Restored = true
	for name, o := range map[string]sqlstore.Options{"a database": options(t, path), "a backup": restored} {
		t.Run(name, func(t *testing.T) {
			s := open(t, o)
			useReferences(t, s)
			closeStore(t, s)
			db, err := sql.Open("sqlite", o.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var left string
			if err := db.QueryRow(`SELECT group_concat(to_scope || '/' || to_name || ' ' || scope || '/' || name, ', ') FROM (SELECT * FROM refs ORDER BY to_scope, to_name, name)`).Scan(&left); err != nil {
				t.Fatal(err)
			}
			if want := "a/box a/holder, b/box b/holder, b/p b/t, b/p b/unread"; left != want {
				t.Errorf("references are left: %s, want %s", left, want)
			}
		})
	}
}

// useReferences deletes what is referred to in one of two scopes.
func useReferences(t *testing.T, s store.Store) {
	write := func(fn func(tx store.Tx) error) (store.Commit, error) { return s.Update(t.Context(), model.Config, fn) }
	if _, err := write(func(tx store.Tx) error { return tx.Delete(storetest.Box, "a", "box", 0) }); !fault.Is(err, fault.Referenced) {
		t.Errorf("what is held is deleted: %v", err)
	}
	if _, err := write(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: storetest.Thing, Scope: "c", Name: "t", Spec: &storetest.Item{Parent: "p", In: "a"}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c, err := write(func(tx store.Tx) error { return tx.Delete(storetest.Thing, "a", "p", 0) })
	if err != nil {
		t.Fatal(err)
	}
	var gone []string
	for _, ch := range c.Changes {
		key := ch.Old.Key()
		gone = append(gone, key.Scope+"/"+key.Name)
		u, unread := ch.Old.Spec.(*store.Unread)
		if want := []model.Key{{Kind: "thing", Scope: "a", Name: "p"}}; unread && !slices.Equal(u.Targets, want) {
			t.Errorf("what cannot be read referred to %v", u.Targets)
		}
	}
	slices.Sort(gone)
	if diff := cmp.Diff([]string{"a/p", "a/t", "a/unread", "c/t"}, gone); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
}

// TestUnreadableReferrerOfAnotherScope: who refers to a row of another scope goes with it
// also if it cannot be decoded, and says what it referred to.
func TestUnreadableReferrerOfAnotherScope(t *testing.T) {
	o := options(t, filepath.Join(t.TempDir(), "meshgate.db"))
	s := open(t, o)
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range []*model.Resource{
			{Kind: storetest.Thing, Scope: "b", Name: "p", Spec: &storetest.Item{}},
			{Kind: storetest.Thing, Scope: "a", Name: "p", Spec: &storetest.Item{}},
			{Kind: storetest.Thing, Scope: "a", Name: "unread", Spec: &storetest.Item{Parent: "p", In: "b"}},
		} {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	db, err := sql.Open("sqlite", o.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE resources SET spec = CAST('{"parent":1}' AS BLOB) WHERE name = 'unread'`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, o)
	c, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error { return tx.Delete(storetest.Thing, "b", "p", 0) })
	if err != nil || len(c.Changes) != 2 {
		t.Fatalf("%+v, %v", c.Changes, err)
	}
	u, unread := c.Changes[0].Old.Spec.(*store.Unread)
	if want := []model.Key{{Kind: "thing", Scope: "b", Name: "p"}}; !unread || !slices.Equal(u.Targets, want) {
		t.Errorf("it referred to %+v", c.Changes[0].Old.Spec)
	}
}
