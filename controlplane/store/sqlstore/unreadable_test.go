package sqlstore

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// newer is the kind of notes in the form that a later version of the program writes.
var newer = &model.Kind{Name: "note", Class: model.Config, New: func() any { return new(struct{ Text any }) }}

// TestListReadable: rows that another version wrote do not hide the readable ones.
func TestListReadable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	in := func(kind *model.Kind, do func(store.Store)) {
		t.Helper()
		s, err := Open(t.Context(), Options{Path: path, Kinds: []*model.Kind{kind}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		do(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		bad  []int
		want []string
	}{
		{nil, []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6"}},
		{[]int{0}, []string{"n1", "n2", "n3", "n4", "n5", "n6"}},
		{[]int{3, 4}, []string{"n0", "n1", "n2", "n5", "n6"}},
		{[]int{1, 6}, []string{"n0", "n2", "n3", "n4", "n5"}},
		{[]int{0, 1, 2, 3, 4, 5, 6}, nil},
	} {
		t.Run(fmt.Sprint(tc.bad), func(t *testing.T) {
			path = filepath.Join(t.TempDir(), "meshgate.db")
			in(notes, func(s store.Store) {
				for i := range 7 {
					if err := write(t, s, fmt.Sprintf("n%d", i), 1); err != nil {
						t.Fatal(err)
					}
				}
			})
			in(newer, func(s store.Store) {
				for _, i := range tc.bad {
					if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
						_, err := tx.Update(&model.Resource{Kind: newer, Name: fmt.Sprintf("n%d", i), Spec: &struct{ Text any }{[]int{1}}}, 0)
						return err
					}); err != nil {
						t.Fatal(err)
					}
				}
			})
			in(notes, func(s store.Store) {
				var got []string
				if err := s.View(t.Context(), func(r store.Reader) error {
					readable, unreadable, err := store.ListReadable(r, notes, "")
					for _, res := range readable {
						got = append(got, res.Name)
					}
					if len(unreadable) != len(tc.bad) {
						t.Errorf("%d cannot be read: %v", len(unreadable), unreadable)
					}
					for _, err := range unreadable {
						if !errors.Is(err, store.ErrUnreadable) {
							t.Errorf("%v is not told from an error of the moment", err)
						}
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("readable (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestReindexWithUnreadableRows: a row that does not decode does not keep the store from
// opening with other indexes. It keeps its old index entries, and gets new ones when it can
// be read.
func TestReindexWithUnreadableRows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	text := func(spec any) string { return spec.(*note).Text }
	before := &model.Kind{Name: "note", Class: model.Config, New: func() any { return new(note) }, Unique: []model.Index{
		{Name: "text", Value: func(spec any) (string, bool) { return text(spec), true }},
	}}
	after := *before
	after.Lists = []model.ListIndex{{Name: "size", Values: func(spec any) []string { return []string{fmt.Sprint(len(text(spec)))} }}}
	in := func(kind *model.Kind, do func(*sqlite)) {
		t.Helper()
		s, err := Open(t.Context(), Options{Path: path, Kinds: []*model.Kind{kind}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		do(s.(*sqlite))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rewrite := func(s *sqlite, spec string) {
		t.Helper()
		if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			tx.Announce(model.Key{Kind: "note", Name: "n1"}, store.Updated)
			return s.writer.session.control(`UPDATE resources SET spec = CAST('` + spec + `' AS BLOB) WHERE name = 'n1'`)
		}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(s *sqlite, kind *model.Kind, name, text string) error {
		_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: kind, Name: name, Spec: &note{Text: text}})
			return err
		})
		return err
	}
	listed := func(s *sqlite, kind *model.Kind, want int) {
		t.Helper()
		if err := s.View(t.Context(), func(r store.Reader) error {
			n, err := r.Count(kind, store.Query{Index: "size", Value: "1"})
			if n != want {
				t.Errorf("%d are listed, want %d", n, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	in(before, func(s *sqlite) {
		for _, name := range []string{"n0", "n1", "n2"} {
			if err := create(s, before, name, name[1:]); err != nil {
				t.Fatal(err)
			}
		}
		rewrite(s, `{"Text":[1]}`)
	})
	in(&after, func(s *sqlite) {
		listed(s, &after, 2)
		for name, text := range map[string]string{"x": "0", "y": "1"} {
			if err := create(s, &after, name, text); err == nil {
				t.Errorf("the text %s could be taken twice", text)
			}
		}
		rewrite(s, `{"Text":"1"}`)
	})
	in(&after, func(s *sqlite) {
		listed(s, &after, 3)
		s.spoilEntries(t, "n0", "n2")
	})
	in(before, func(s *sqlite) { // a start with other indexes writes them all anew
		if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error { return tx.Delete(before, "", "n0", 0) }); err != nil {
			t.Error(err)
		}
		if err := create(s, before, "again", "0"); err != nil {
			t.Errorf("what has gone with its row cannot be taken: %v", err)
		}
	})
	in(&after, func(s *sqlite) { listed(s, &after, 3) })
}
