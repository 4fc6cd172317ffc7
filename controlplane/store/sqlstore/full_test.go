package sqlstore

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

type note struct{ Text string }

var notes = &model.Kind{Name: "note", Class: model.Config, New: func() any { return new(note) }}

// whispers are notes that are not announced.
var whispers = &model.Kind{Name: "whisper", Class: model.Credential, Announce: model.AnnounceNone, New: func() any { return new(note) }}

// openNotes opens a store for tests that access its internals.
func openNotes(t *testing.T) *sqlite {
	t.Helper()
	return openNotesAt(t, filepath.Join(t.TempDir(), "meshgate.db"))
}

func openNotesAt(t *testing.T, path string) *sqlite {
	t.Helper()
	s, err := Open(t.Context(), Options{
		Path: path, Kinds: []*model.Kind{notes, whispers}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*sqlite)
}

func (s *sqlite) count(t *testing.T) (n int) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) (err error) {
		n, err = r.Count(notes, store.Query{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t *testing.T, s store.Store, name string, size int) error {
	t.Helper()
	_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: notes, Name: name, Spec: &note{Text: strings.Repeat("x", size)}})
		return err
	})
	return err
}

// limit sets the size of the database from inside a transaction, where the caller owns the
// session.
func (s *sqlite) limit(t *testing.T, pages int) {
	t.Helper()
	if _, err := s.Update(t.Context(), model.Config, func(store.Tx) error {
		return s.writer.session.control(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	}); err != nil {
		t.Fatal(err)
	}
}

// TestFull: if the database cannot grow, whole commits fail. The store works again as soon as
// the database can grow.
func TestFull(t *testing.T) {
	s := openNotes(t)
	if err := write(t, s, "before", 10); err != nil {
		t.Fatal(err)
	}
	s.limit(t, 1) // SQLite raises the limit to the present size
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if err := write(t, s, fmt.Sprint("large", i), 1<<20); !fault.Is(err, fault.Unstored) {
				t.Errorf("writing to a full database: %v", err)
			}
		})
	}
	wg.Wait()
	if n := s.count(t); n != 1 || s.Revision() != 1 {
		t.Errorf("%d notes at revision %d", n, s.Revision())
	}
	s.limit(t, 1<<20)
	if err := write(t, s, "after", 1<<20); err != nil {
		t.Fatal(err)
	}
	if n := s.count(t); n != 2 || s.Revision() != 2 {
		t.Errorf("afterwards %d notes at revision %d", n, s.Revision())
	}
}

// TestIgnoredFailure: a function that ignores a failure of the store cannot commit what is
// half written.
func TestIgnoredFailure(t *testing.T) {
	s := openNotes(t)
	_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		if err := s.writer.session.control("DROP TABLE refs"); err != nil {
			return err
		}
		if _, err := tx.Create(&model.Resource{Kind: notes, Name: "a", Spec: &note{}}); err != nil {
			return err
		}
		_ = tx.Delete(notes, "", "a", 0)
		return nil
	})
	if !fault.Is(err, fault.Internal) {
		t.Errorf("got %v", err)
	}
	if err := write(t, s, "b", 1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if n := s.count(t); n != 1 {
		t.Errorf("%d notes", n)
	}
}
