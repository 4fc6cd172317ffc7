package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// tally counts; its kind is busy. ledger rows are durable.
type tally struct {
	N int `json:"n"`
}

var (
	tallies = &model.Kind{Name: "tally", Class: model.Credential, Announce: model.AnnounceNone, Busy: true, New: func() any { return new(tally) }}
	ledgers = &model.Kind{Name: "ledger", Class: model.Credential, Announce: model.AnnounceNone, Durable: true, New: func() any { return new(tally) }}
)

func openTallies(t *testing.T, path string) *sqlite {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path, Kinds: []*model.Kind{notes, tallies, ledgers}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*sqlite)
}

// count counts one more in a transaction, which fails then if it is told to.
func count(then error) func(store.Tx) error {
	return func(tx store.Tx) error {
		stored, err := tx.Get(tallies, "", "t")
		if fault.Is(err, fault.NotFound) {
			_, err = tx.Create(&model.Resource{Kind: tallies, Name: "t", Spec: &tally{N: 1}})
			return errors.Join(err, then)
		}
		if err != nil {
			return err
		}
		_, err = tx.Update(&model.Resource{Kind: tallies, Name: "t", Spec: &tally{N: stored.Spec.(*tally).N + 1}}, stored.Version)
		return errors.Join(err, then)
	}
}

// counted is the tally that views see, in another connection.
func (s *sqlite) counted(t *testing.T) (n int) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(tallies, "", "t")
		if err == nil {
			n = res.Spec.(*tally).N
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	return n
}

// written is how many rows of the database have been written so far.
func (s *sqlite) written(t *testing.T) (n int) {
	t.Helper()
	if err := s.writer.inside(t.Context(), &request{class: model.Config, raw: func(r *rows) error {
		_, err := r.row(`SELECT total_changes()`, nil, &n)
		return err
	}}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBusyRows: of a row that transactions of one commit change one after another, only the last version
// is written; and whatever becomes of some of them, all others count, for who reads one row or many, in the
// transactions, after them, and after a restart.
func TestBusyRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "meshgate.db")
		s := openTallies(t, path)
		listed := 0
		list := func(tx store.Tx) error {
			rows, err := tx.List(tallies, store.Query{})
			if err == nil {
				listed = rows[0].Spec.(*tally).N
			}
			return err
		}
		anew := func(tx store.Tx) error {
			return errors.Join(count(nil)(tx), tx.Delete(tallies, "", "t", 0), count(nil)(tx))
		}
		want := func(what string, n int) {
			t.Helper()
			if got := s.counted(t); got != n {
				t.Errorf("%s: %d are counted, want %d", what, got, n)
			}
		}
		if errs := together(t, s, count(nil), count(nil)); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		before := s.written(t)
		if errs := together(t, s, count(nil), count(nil), count(nil), count(nil)); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		// That of the tally, of the number of the commit, and of the commit that asked before.
		if n := s.written(t) - before; n > 3 {
			t.Errorf("%d rows are written", n)
		}
		want("four", 6)
		errOwn := errors.New("of the caller")
		if errs := together(t, s, count(nil), count(errOwn), count(nil)); errs[0] != nil || !errors.Is(errs[1], errOwn) || errs[2] != nil {
			t.Error(errs)
		}
		want("one fails", 8)
		if errs := together(t, s, count(nil), list, count(nil)); errors.Join(errs...) != nil || listed != 9 {
			t.Errorf("%v, %d in the list", errs, listed)
		}
		want("one lists", 10)
		if errs := together(t, s, count(nil), anew, count(nil)); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		want("one removes it and makes it anew", 2)
		badDisk(t, s, false)
		if errs := together(t, s, count(nil), count(nil)); errs[0] == nil || errs[1] == nil {
			t.Errorf("on a bad disk: %v", errs)
		}
		want("the disk is bad", 2)
		if errs := together(t, s, count(nil), count(nil)); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		want("the disk is good again", 4)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTallies(t, path)
		want("after a restart", 4)
		if errs := together(t, s, count(nil)); errs[0] != nil {
			t.Error(errs)
		}
		want("one more", 5)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// syncs is a connection that tells how commits are synchronised.
type syncs struct {
	connection
	now  string
	list []string
}

func (c *syncs) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if mode, found := strings.CutPrefix(query, "PRAGMA synchronous = "); found {
		c.now = mode
	}
	res, err := c.connection.ExecContext(ctx, query, args...)
	if query == "COMMIT" {
		c.list = append(c.list, c.now)
	}
	return res, err
}

// TestDurableRowsInALaxBatch: transactions of the laxer class are synchronised with one of them that
// writes what must survive a power failure, in one commit. The next one begins so, and only what needs it
// not goes on without.
func TestDurableRowsInALaxBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openTallies(t, filepath.Join(t.TempDir(), "meshgate.db"))
		c := &syncs{now: "FULL"}
		if _, err := s.Update(t.Context(), model.Config, func(store.Tx) error {
			c.connection, s.writer.session.conn = s.writer.session.conn, c
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		runs := 0
		laxly := func(tx store.Tx) error {
			runs++
			return count(nil)(tx)
		}
		books := 0
		durably := func(tx store.Tx) error {
			books++
			_, err := tx.Create(&model.Resource{Kind: ledgers, Name: fmt.Sprint(books), Spec: &tally{}})
			return err
		}
		for i, batch := range []struct {
			fns  []func(store.Tx) error
			runs int
			want string
		}{
			{[]func(store.Tx) error{laxly, laxly}, 2, "NORMAL"},
			{[]func(store.Tx) error{laxly, durably, laxly}, 3, "FULL"},
			{[]func(store.Tx) error{laxly, laxly, durably}, 2, "FULL"},
			{[]func(store.Tx) error{laxly}, 1, "FULL"},
			{[]func(store.Tx) error{laxly}, 1, "NORMAL"},
			{[]func(store.Tx) error{durably}, 0, "FULL"},
		} {
			runs, c.list = 0, nil
			if errs := togetherAs(t, s, model.Credential, batch.fns...); errors.Join(errs...) != nil {
				t.Fatal(i, errs)
			}
			if !slices.Equal(c.list, []string{batch.want}) || runs != batch.runs {
				t.Errorf("batch %d: commits %q after %d runs, want %s and %d", i, c.list, runs, batch.want, batch.runs)
			}
		}
		if n := s.counted(t); n != 8 {
			t.Errorf("%d are counted", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
