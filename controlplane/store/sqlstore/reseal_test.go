package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// ring derives keys from root keys of one repeated byte each; the first one seals.
func ring(t testing.TB, fills ...byte) *seal.Keys {
	t.Helper()
	var roots [][]byte
	for _, fill := range fills {
		roots = append(roots, bytes.Repeat([]byte{fill}, seal.RootSize))
	}
	k, err := seal.New(roots...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// issue creates badges whose secrets are their names.
func issue(t testing.TB, s store.Store, names ...string) {
	t.Helper()
	if _, err := s.Update(t.Context(), model.Credential, func(tx store.Tx) error {
		for _, name := range names {
			if _, err := tx.Create(&model.Resource{Kind: storetest.Badge, Name: name, Spec: &storetest.Item{Secret: name}}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func badges(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("badge %03d", i)
	}
	return names
}

// readable checks that every badge exists and is found by its secret.
func readable(t testing.TB, s store.Store, secrets map[string]string) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) error {
		list, err := r.List(storetest.Badge, store.Query{})
		if err != nil || len(list) != len(secrets) {
			return fmt.Errorf("%d badges, want %d, %w", len(list), len(secrets), err)
		}
		for _, res := range list {
			secret := res.Spec.(*storetest.Item).Secret
			if want, there := secrets[res.Name]; !there || secret != want {
				return fmt.Errorf("%s has the secret %q, want %q", res.Name, secret, want)
			}
			if found, err := r.Find(storetest.Badge, "", "secret", secret); err != nil || found.Name != res.Name {
				return fmt.Errorf("%s by its secret: %v, %w", res.Name, found, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func named(names []string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		out[n] = n
	}
	return out
}

// opens reports whether a database opens with keys.
func opens(t *testing.T, path string, k *seal.Keys) bool {
	t.Helper()
	o := options(t, path)
	o.Sealer = k
	s, err := sqlstore.Open(t.Context(), o)
	if errors.Is(err, sqlstore.ErrKey) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	return true
}

// TestReseal changes the key during reads and writes. As long as rows need the old key, the
// database opens only with both keys; then it opens with the new one alone.
func TestReseal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := open(t, options(t, path))
	names := badges(350)
	issue(t, s, names...)
	resealer := s.(sqlstore.Resealer)
	if now, err := resealer.Resealing(t.Context()); err != nil || !now.Done {
		t.Fatalf("before: %+v, %v", now, err)
	}
	if err := resealer.Adopt(t.Context(), ring(t, 2)); !errors.Is(err, sqlstore.ErrKey) {
		t.Fatalf("a key that opens nothing was adopted: %v", err)
	}
	if err := resealer.Adopt(t.Context(), ring(t, 2, 1)); err != nil {
		t.Fatal(err)
	}
	readable(t, s, named(names))
	// A secret that is indexed with the old key is still unique.
	_, err := s.Update(t.Context(), model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: storetest.Badge, Name: "thief", Spec: &storetest.Item{Secret: names[0]}})
		return err
	})
	if !fault.Is(err, fault.Unique) {
		t.Errorf("a secret of the old key was taken twice: %v", err)
	}
	broken, stop := context.WithCancel(t.Context())
	left := 0
	if _, err := resealer.Reseal(broken, func(now sqlstore.Resealing) { left = now.Left; stop() }); err == nil || left == 0 || left >= len(names) {
		t.Fatalf("broken off: %d rows left, %v", left, err)
	}
	closeStore(t, s)
	if opens(t, path, ring(t, 1)) || opens(t, path, ring(t, 2)) {
		t.Error("it opens with one key, although there are rows of both")
	}
	o := options(t, path)
	o.Sealer = ring(t, 2, 1)
	s = open(t, o)
	resealer = s.(sqlstore.Resealer)
	if now, err := resealer.Resealing(t.Context()); err != nil || now.Done || now.Left != left {
		t.Errorf("after a restart: %+v, %v, want %d rows left", now, err, left)
	}
	var others sync.WaitGroup
	for i := range 50 {
		others.Go(func() {
			issue(t, s, fmt.Sprintf("meanwhile %d", i))
			readable1(t, s, names[i])
		})
	}
	if now, err := resealer.Reseal(t.Context(), nil); err != nil || !now.Done {
		t.Errorf("%+v, %v", now, err)
	}
	others.Wait()
	for i := range 50 {
		names = append(names, fmt.Sprintf("meanwhile %d", i))
	}
	readable(t, s, named(names))
	closeStore(t, s)
	if opens(t, path, ring(t, 1)) {
		t.Error("it opens with the old key")
	}
	o.Sealer = ring(t, 2)
	s = open(t, o)
	readable(t, s, named(names))
	closeStore(t, s)
	// The old key seals again, as after an operator has put the wrong key first.
	o.Sealer = ring(t, 1, 2)
	s = open(t, o)
	if now, err := s.(sqlstore.Resealer).Reseal(t.Context(), nil); err != nil || !now.Done {
		t.Errorf("%+v, %v", now, err)
	}
	closeStore(t, s)
	o.Sealer = ring(t, 1)
	readable(t, open(t, o), named(names))
}

func readable1(t *testing.T, s store.Store, name string) {
	if err := s.View(t.Context(), func(r store.Reader) error {
		_, err := r.Find(storetest.Badge, "", "secret", name)
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestResealUnreadable: a row that no key opens keeps the old key from being dropped, and
// does not block other rows. When it is gone, the change completes.
func TestResealUnreadable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := open(t, options(t, path))
	issue(t, s, "good", "bad")
	closeStore(t, s)
	execute(t, path, `UPDATE resources SET spec = x'01ff' WHERE name = 'bad'`)
	o := options(t, path)
	o.Sealer = ring(t, 2, 1)
	s = open(t, o)
	for range 2 { // it is looked at again each time
		if now, err := s.(sqlstore.Resealer).Reseal(t.Context(), nil); err != nil || now.Done || now.Unreadable != 1 || now.Left != 0 {
			t.Errorf("%+v, %v", now, err)
		}
	}
	closeStore(t, s)
	if opens(t, path, ring(t, 2)) {
		t.Error("it opens without the old key")
	}
	execute(t, path, `DELETE FROM resources WHERE name = 'bad'; DELETE FROM uniques WHERE id NOT IN (SELECT id FROM resources)`)
	s = open(t, o)
	if now, err := s.(sqlstore.Resealer).Reseal(t.Context(), nil); err != nil || !now.Done {
		t.Errorf("%+v, %v", now, err)
	}
	closeStore(t, s)
	if !opens(t, path, ring(t, 2)) {
		t.Error("it does not open with the new key alone")
	}
}

// execute changes a database without the knowledge of the store.
func execute(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

// TestResealProperty writes, rotates and breaks off at random. After every step everything
// that was written is there, with the keys that are needed then.
func TestResealProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "meshgate.db")
		fills := []byte{1}
		o := options(t, path).SealedBy(5) // the largest number of rows below makes three pages
		reopen := func() store.Store {
			o.Sealer = ring(t, fills...)
			s, err := sqlstore.Open(t.Context(), o)
			if err != nil {
				rt.Fatalf("with %v: %v", fills, err)
			}
			return s
		}
		s := reopen()
		defer func() { closeStore(t, s) }()
		secrets := named(badges(rapid.SampledFrom([]int{0, 3, 12}).Draw(rt, "rows")))
		issue(t, s, slices.Collect(maps.Keys(secrets))...)
		next := byte(1)
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				name, secret := fmt.Sprintf("badge %03d", rapid.IntRange(0, 9).Draw(rt, "name")), fmt.Sprintf("secret %d", rapid.IntRange(0, 9).Draw(rt, "secret"))
				_, err := s.Update(t.Context(), model.Credential, func(tx store.Tx) error {
					res := &model.Resource{Kind: storetest.Badge, Name: name, Spec: &storetest.Item{Secret: secret}}
					if _, there := secrets[name]; there {
						_, err := tx.Update(res, 0)
						return err
					}
					_, err := tx.Create(res)
					return err
				})
				taken := false
				for other, is := range secrets {
					taken = taken || is == secret && other != name
				}
				switch {
				case taken != fault.Is(err, fault.Unique):
					rt.Fatalf("%s is taken: %t, %v", secret, taken, err)
				case err == nil:
					secrets[name] = secret
				case !taken:
					rt.Fatal(err)
				}
			},
			"rotate": func(rt *rapid.T) {
				next++
				fills = append([]byte{next}, fills...) // the key file is written first
				if rapid.Bool().Draw(rt, "and dies") {
					closeStore(t, s)
					s = reopen()
				} else if err := s.(sqlstore.Resealer).Adopt(t.Context(), ring(t, fills...)); err != nil {
					rt.Fatal(err)
				}
			},
			"reseal": func(rt *rapid.T) {
				pages := rapid.IntRange(0, 3).Draw(rt, "pages")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if pages == 0 {
					cancel()
				}
				now, err := s.(sqlstore.Resealer).Reseal(ctx, func(sqlstore.Resealing) {
					if pages--; pages <= 0 {
						cancel()
					}
				})
				if err == nil && !now.Done {
					rt.Fatalf("%+v", now)
				}
			},
			"forget": func(rt *rapid.T) {
				if now, err := s.(sqlstore.Resealer).Resealing(t.Context()); err != nil || !now.Done {
					return
				}
				fills = fills[:1]
			},
			"die": func(*rapid.T) {
				closeStore(t, s)
				s = reopen()
			},
			"": func(*rapid.T) { readable(t, s, secrets) },
		})
	})
}

// TestResealChanges: change records are sealed anew in transactions of a few rows, like
// resources. A record that no key opens keeps the old key from being dropped, and does not
// block others. When it is gone, the change of the key completes.
func TestResealChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := open(t, options(t, path))
	const changes = 350
	for range changes / 50 {
		record(t, s, slices.Repeat([]store.ChangeRecord{recordOf(storetest.Badge, "was")}, 50)...)
	}
	issue(t, s, badges(150)...)
	closeStore(t, s)
	execute(t, path, `UPDATE changes SET detail = x'01ff' WHERE number = 7`)
	o := options(t, path)
	o.Sealer = ring(t, 2, 1)
	s = open(t, o)
	left := []int{changes + 150}
	now, err := s.(sqlstore.Resealer).Reseal(t.Context(), func(now sqlstore.Resealing) { left = append(left, now.Left) })
	if err != nil || now.Done || now.Unreadable != 1 || now.Left != 0 {
		t.Errorf("%+v, %v", now, err)
	}
	for i := 1; i < len(left); i++ {
		if left[i-1]-left[i] > 100 {
			t.Errorf("more than 100 rows in one transaction: %v", left)
		}
	}
	if len(left) < 6 {
		t.Errorf("all in %d transactions", len(left))
	}
	recorded(t, s, 8, changes)
	closeStore(t, s)
	if opens(t, path, ring(t, 2)) {
		t.Error("it opens without the old key")
	}
	execute(t, path, `DELETE FROM changes WHERE number <= 7`) // as happens when they are old enough
	s = open(t, o)
	if now, err := s.(sqlstore.Resealer).Reseal(t.Context(), nil); err != nil || !now.Done {
		t.Errorf("%+v, %v", now, err)
	}
	closeStore(t, s)
	o.Sealer = ring(t, 2)
	s = open(t, o)
	recorded(t, s, 8, changes)
}

// recorded checks that the change records from one number to another can be read.
func recorded(t *testing.T, s store.Store, from, to uint64) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) error {
		list, err := r.Records(store.RecordQuery{Oldest: true, After: from - 1})
		if err != nil || uint64(len(list)) != to-from+1 {
			return fmt.Errorf("%d changes, %w", len(list), err)
		}
		for i := range list {
			if c := &list[i]; c.Unreadable || len(c.Members) == 0 || string(c.Members[0].Old) != `"was"` {
				return fmt.Errorf("change %d: %+v", c.Number, c)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
