package sqlstore

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// spoil makes rows undecodable, as another version of the program may have written them.
func (s *sqlite) spoil(t *testing.T, names ...string) {
	t.Helper()
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		list, err := json.Marshal(names)
		if err != nil {
			return err
		}
		tx.Announce(model.Key{Kind: "mortal"}, store.Updated)
		_, err = s.writer.session.exec(`UPDATE resources SET spec = CAST('[1]' AS BLOB) WHERE name IN (SELECT value FROM json_each(?))`, string(list))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// spoilEntries makes the lists of the index entries of rows unreadable.
func (s *sqlite) spoilEntries(t *testing.T, names ...string) {
	t.Helper()
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.writer.inside(t.Context(), &request{class: model.Config, raw: func(r *rows) error {
		_, err := r.exec(`UPDATE resources SET entries = '[["u"' WHERE name IN (SELECT value FROM json_each(?))`, string(list))
		return err
	}}); err != nil {
		t.Fatal(err)
	}
}

// TestDeleteUnreadable: a row that cannot be decoded can be deleted, alone or with what it
// refers to. Watchers are told which row it was, and what it referred to. Neither depends on
// the row's own list of its index entries.
func TestDeleteUnreadable(t *testing.T) {
	t.Parallel()
	for _, entries := range []bool{true, false} {
		t.Run(fmt.Sprintf("with its entries=%v", entries), func(t *testing.T) { testDeleteUnreadable(t, entries) })
	}
}

func testDeleteUnreadable(t *testing.T, entries bool) {
	for _, tc := range []struct {
		name   string
		spoilt []string
		remove string
		want   []string
		left   int
	}{
		{"itself", []string{"child0"}, "child0", []string{"child0 of [owner0]"}, 3},
		{"what refers to it", []string{"child1"}, "owner0", []string{"child1 of [owner0]", "child0", "owner0"}, 1},
		{"its owner", []string{"owner0"}, "owner0", []string{"child1", "child0", "owner0 of []"}, 1},
		{"all", []string{"owner0", "child0", "child1"}, "owner0", []string{"child1 of [owner0]", "child0 of [owner0]", "owner0 of []"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, _ := mortality(t)
			bear(t, s, "owner", 1, 0, "")
			bear(t, s, "other", 1, 1<<50, "")
			bear(t, s, "child", 2, 1<<50, "owner0")
			s.spoil(t, tc.spoilt...)
			if !entries {
				s.spoilEntries(t, "owner0", "child0", "child1")
			}
			c, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
				if _, err := tx.Get(mortals, "", tc.spoilt[0]); store.UnreadIn(err) == nil || store.UnreadIn(err).Name != tc.spoilt[0] {
					t.Errorf("what cannot be read is not named: %v", err)
				}
				return tx.Delete(mortals, "", tc.remove, 0)
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ch := range c.Changes {
				text := ch.Old.Name
				if u, unread := ch.Old.Spec.(*store.Unread); unread {
					names := []string{}
					for _, to := range u.Targets {
						names = append(names, to.Name)
					}
					text += fmt.Sprint(" of ", names)
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if rows, entries := s.left(t); rows != tc.left || entries != tc.left {
				t.Errorf("%d rows and %d entries are left", rows, entries)
			}
			if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
				return tx.Delete(mortals, "", tc.remove, 0)
			}); !fault.Is(err, fault.NotFound) {
				t.Errorf("deleted again: %v", err)
			}
		})
	}
}

// TestSweepUnreadable: a row that has ended and cannot be decoded, or whose index entries cannot
// be read from it, or whose kind is unknown, does not keep others from being removed.
func TestSweepUnreadable(t *testing.T) {
	t.Parallel()
	s, clock, swept := mortality(t)
	bear(t, s, "m", 3, clock.Load()+100, "")
	s.spoil(t, "m0")
	s.spoilEntries(t, "m2")
	if err := s.writer.inside(t.Context(), &request{class: model.Config, raw: func(r *rows) error {
		_, err := r.exec(`UPDATE resources SET kind = 'of a later version' WHERE name = 'm1'`)
		return err
	}}); err != nil {
		t.Fatal(err)
	}
	clock.Add(1000)
	select {
	case n := <-swept.rows:
		if n != 2 {
			t.Errorf("%d rows were removed", n)
		}
	case <-time.After(patience):
		t.Fatal("nothing was removed")
	}
	if rows, entries := s.left(t); rows != 1 || entries != 1 {
		t.Errorf("%d rows and %d entries are left", rows, entries)
	}
	// The next alarm does not come from the row that stays.
	bear(t, s, "n", 1, clock.Load()+100, "")
	clock.Add(1000)
	select {
	case n := <-swept.rows:
		if n != 1 {
			t.Errorf("%d rows were removed", n)
		}
	case <-time.After(patience):
		t.Fatal("nothing more was removed")
	}
}

// TestListAll: callers that delete what they find also see rows that cannot be decoded.
func TestListAll(t *testing.T) {
	s, _, _ := mortality(t)
	bear(t, s, "owner", 1, 0, "")
	bear(t, s, "child", 5, 1<<50, "owner0")
	s.spoil(t, "child1", "child4")
	if err := s.View(t.Context(), func(r store.Reader) error {
		for limit, want := range []string{"child0 child1* child2 child3 child4*", "child0", "child0 child1*"} {
			list, err := store.ListAll(r, mortals, store.Query{Index: "of", Value: "owner0", Limit: limit})
			if err != nil {
				return err
			}
			got := ""
			for i, res := range list {
				if i > 0 {
					got += " "
				}
				if got += res.Name; store.IsUnread(res) {
					got += "*"
				}
			}
			if got != want {
				t.Errorf("limit %d: %s, want %s", limit, got, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestUnreadableOfUnknownKind: a resource cannot be deleted if a row of an unknown kind
// refers to it, because nobody knows what would have to be deleted with that row.
func TestUnreadableOfUnknownKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	open := func(kinds ...*model.Kind) *sqlite {
		s, err := Open(t.Context(), Options{Path: path, Kinds: kinds, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return s.(*sqlite)
	}
	later := &model.Kind{Name: "later", Class: model.Credential, New: func() any { return new(mortal) }, Refs: []model.Ref{
		{Name: "of", To: "mortal", OnDelete: model.Cascade, Target: func(any) (string, bool) { return "owner0", true }},
	}}
	s := open(mortals, later)
	bear(t, s, "owner", 1, 0, "")
	if _, err := s.Update(t.Context(), model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: later, Name: "l", Spec: &mortal{}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(mortals)
	defer func() { _ = s.Close() }()
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error { return tx.Delete(mortals, "", "owner0", 0) }); !fault.Is(err, fault.Internal) {
		t.Errorf("deleted: %v", err)
	}
}

// TestEntriesLeftBehind: SQLite gives the id of a row that is gone to the next one. An index
// entry that was left behind does not lead to that: it is neither found by the value of the
// other, nor deleted as what referred to something.
func TestEntriesLeftBehind(t *testing.T) {
	t.Parallel()
	listing := *mortals
	listing.Lists = []model.ListIndex{{Name: "ends", Values: func(spec any) []string { return []string{fmt.Sprint(spec.(*mortal).Ends)} }}}
	opened, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "meshgate.db"), Kinds: []*model.Kind{&listing, whispers}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*sqlite)
	defer func() { _ = s.Close() }()
	lost := &mortal{Ends: 1 << 50, Of: "owner"}
	create := func(k *model.Kind, name string, spec any) {
		t.Helper()
		if _, err := s.Update(t.Context(), model.Credential, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: k, Name: name, Spec: spec})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	create(&listing, "owner", &mortal{})
	create(&listing, "lost", lost)
	id := func(name string) (id int64) {
		t.Helper()
		if err := s.writer.inside(t.Context(), &request{class: model.Config, raw: func(r *rows) error {
			_, err := r.row(`SELECT id FROM resources WHERE name = ?`, []any{name}, &id)
			return err
		}}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	was := id("lost")
	if err := s.writer.inside(t.Context(), &request{class: model.Config, raw: func(r *rows) error {
		_, err := r.exec(`DELETE FROM resources WHERE name = 'lost'`)
		return err
	}}); err != nil {
		t.Fatal(err)
	}
	create(whispers, "other", &note{})
	if id("other") != was {
		t.Fatal("the id is not used again, so this test shows nothing")
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		if res, err := r.Find(&listing, "", "self", fmt.Sprint(lost)); !fault.Is(err, fault.NotFound) {
			t.Errorf("by the value: %v, %v", res, err)
		}
		for _, q := range []store.Query{{Index: "of", Value: "owner"}, {Index: "ends", Value: fmt.Sprint(lost.Ends)}} {
			list, err := r.List(&listing, q)
			n, failed := r.Count(&listing, q)
			if len(list) != 0 || n != 0 || err != nil || failed != nil {
				t.Errorf("by %s: %v, %d, %v, %v", q.Index, list, n, err, failed)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	c, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error { return tx.Delete(&listing, "", "owner", 0) })
	if err != nil || len(c.Changes) != 1 {
		t.Errorf("%+v, %v", c.Changes, err)
	}
	if id("other") != was {
		t.Error("the other row went with what it never referred to")
	}
}
