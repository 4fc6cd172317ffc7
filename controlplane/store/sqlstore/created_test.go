package sqlstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// createdIn reads the revision in which each box was made.
func createdIn(t *testing.T, s store.Store) map[string]uint64 {
	t.Helper()
	got := map[string]uint64{}
	if err := s.View(t.Context(), func(r store.Reader) error {
		list, err := r.List(storetest.Box, store.Query{Scope: "s"})
		for _, res := range list {
			got[res.Name] = res.CreatedRevision
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestRowsOfBefore opens a database in which rows did not say when the store made them:
// their order is the one in which they were made, whatever their writers say, none is
// younger than the database, and a new one is younger than all.
func TestRowsOfBefore(t *testing.T) {
	row := func(id int, name string, revision, created int) string {
		return fmt.Sprintf(`INSERT INTO resources (id, kind, scope, name, version, revision, created, modified, expires, sealed, spec)
			VALUES (%d, 'box', 's', '%s', 1, %d, %d, 1, 0, 0, CAST('{"label":"%[2]s"}' AS BLOB))`, id, name, revision, created)
	}
	s := open(t, options(t, previous(t, 4,
		`UPDATE meta SET value = 9 WHERE name = 'revision'`,
		row(1, "written later", 9, 5), row(2, "made in 3", 3, 4), row(4, "with others", 5, 3), row(5, "with it", 5, 2), row(6, "backdated", 7, 1),
	)))
	create(t, s, "new")
	want := map[string]uint64{"written later": 3, "made in 3": 3, "with others": 5, "with it": 5, "backdated": 7, "new": 10}
	if got := createdIn(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("made in %v, want %v", got, want)
	}
}

// TestBackupSaysWhenRowsWereMade restores a backup after writes to the original.
func TestBackupSaysWhenRowsWereMade(t *testing.T) {
	path, into := filepath.Join(t.TempDir(), "meshgate.db"), filepath.Join(t.TempDir(), "backup.db")
	s := open(t, options(t, path))
	create(t, s, "a")
	create(t, s, "b")
	relabel := func(label string) {
		t.Helper()
		if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Update(&model.Resource{Kind: storetest.Box, Scope: "s", Name: "a", Spec: &storetest.Item{Label: label}}, 0)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	relabel("one")
	if err := os.WriteFile(into, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Snapshot(t.Context(), path, into); err != nil {
		t.Fatal(err)
	}
	relabel("two")
	closeStore(t, s)
	o := options(t, into)
	o.Restored = true
	s = open(t, o)
	create(t, s, "c")
	if got, want := fmt.Sprint(createdIn(t, s)), fmt.Sprint(map[string]uint64{"a": 1, "b": 2, "c": 4}); got != want {
		t.Errorf("made in %v, want %v", got, want)
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		a, err := r.Get(storetest.Box, "s", "a")
		if err == nil && a.Since("label") != 3 {
			t.Errorf("a has its label since %d", a.Since("label"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
