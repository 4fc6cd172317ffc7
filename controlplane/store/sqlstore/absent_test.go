package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// absent fails unless there is no tally.
func absent(tx store.Tx) error {
	_, err := tx.Get(tallies, "", "t")
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return errors.Join(errors.New("there is a tally, or nobody knows"), err)
}

// there fails unless there is a tally.
func there(tx store.Tx) error {
	_, err := tx.Get(tallies, "", "t")
	return err
}

func removes(tx store.Tx) error { return tx.Delete(tallies, "", "t", 0) }

// looked fails unless there is no tally, and writes something else.
func looked(tx store.Tx) error { return errors.Join(absent(tx), makes("n", nil)(tx)) }

// TestWhatIsAbsentIsReadOnce: a transaction that looks for a row of a busy kind that is not there, as every
// login does for what nobody has set up, does not ask the database if another one has looked for it.
func TestWhatIsAbsentIsReadOnce(t *testing.T) {
	for name, before := range map[string][]func(store.Tx) error{
		"never there":        {looked},
		"gone and looked at": {count(nil), func(tx store.Tx) error { return errors.Join(removes(tx), looked(tx)) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTallies(t, filepath.Join(t.TempDir(), "meshgate.db"))
			for _, fn := range before {
				if _, err := s.Update(t.Context(), model.Config, fn); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
				for _, st := range s.writer.session.stmts { // whoever reads now fails
					if err := st.Close(); err != nil {
						return err
					}
				}
				clear(s.writer.session.stmts)
				s.writer.session.conn = &unasked{s.writer.session.conn}
				return absent(tx)
			}); err != nil {
				t.Error(err)
			}
			s.writer.session.conn = s.writer.session.conn.(*unasked).connection
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestWhatWasAbsent: what was looked for in vain is found as soon as somebody makes it, in the transaction that
// makes it, in the same commit and after it; and is absent again if that is undone, however it is.
func TestWhatWasAbsent(t *testing.T) {
	errOwn := errors.New("of the caller")
	madeIn := func(tx store.Tx) error { return errors.Join(absent(tx), count(nil)(tx), there(tx)) }
	goneIn := func(tx store.Tx) error { return errors.Join(madeIn(tx), removes(tx), absent(tx)) }
	undone := func(tx store.Tx) error { return errors.Join(madeIn(tx), errOwn) }
	for name, c := range map[string]struct {
		batch []func(store.Tx) error
		// bad says that the disk fails.
		bad   bool
		after func(store.Tx) error
	}{
		"made":                             {batch: []func(store.Tx) error{absent, madeIn, there}, after: there},
		"made and gone in one":             {batch: []func(store.Tx) error{absent, goneIn, absent}, after: absent},
		"made and gone in two":             {batch: []func(store.Tx) error{absent, madeIn, removes, absent}, after: absent},
		"made, and undone":                 {batch: []func(store.Tx) error{absent, undone}, after: absent},
		"made, and undone beside others":   {batch: []func(store.Tx) error{absent, undone, looked, absent}, after: absent},
		"undone, and made by the next one": {batch: []func(store.Tx) error{absent, undone, madeIn}, after: there},
		"made on a bad disk":               {batch: []func(store.Tx) error{absent, madeIn}, bad: true, after: absent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := openTallies(t, filepath.Join(t.TempDir(), "meshgate.db"))
				if c.bad {
					badDisk(t, s, false)
				}
				for i, err := range together(t, s, c.batch...) {
					if (err != nil) != c.bad && !errors.Is(err, errOwn) {
						t.Errorf("transaction %d: %v", i, err)
					}
				}
				if _, err := s.Update(t.Context(), model.Config, c.after); err != nil {
					t.Errorf("afterwards: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// unasked is a connection that prepares nothing.
type unasked struct{ connection }

func (*unasked) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, errors.New("the database is asked")
}
