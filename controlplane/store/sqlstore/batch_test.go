package sqlstore

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// together runs functions in one batch of the writer and returns their errors. A function
// that panics has errUnwound.
func together(t *testing.T, s *sqlite, fns ...func(store.Tx) error) []error {
	t.Helper()
	return togetherAs(t, s, model.Config, fns...)
}

// togetherAs is together for transactions of a class.
func togetherAs(t *testing.T, s *sqlite, class model.Class, fns ...func(store.Tx) error) []error {
	t.Helper()
	hold, errs := make(chan struct{}), make([]error, len(fns))
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := s.Update(t.Context(), model.Config, func(store.Tx) error {
			<-hold
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	for i, fn := range fns {
		all.Go(func() {
			defer func() {
				if recover() != nil {
					errs[i] = errUnwound
				}
			}()
			_, errs[i] = s.Update(t.Context(), class, fn)
		})
		synctest.Wait() // they wait in this order
	}
	close(hold)
	all.Wait()
	return errs
}

func makes(name string, then error) func(store.Tx) error {
	return func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: notes, Name: name, Spec: &note{}})
		return errors.Join(err, then)
	}
}

// TestFailuresInABatch: whatever becomes of one function of a batch, the writes of all others
// are made, and none of its own. They run again only if somebody has written and failed.
func TestFailuresInABatch(t *testing.T) {
	errOwn := errors.New("of the caller")
	for name, c := range map[string]struct {
		fn   func(store.Tx) error
		want func(error) bool
		runs int
	}{
		"one fails before it writes": {func(tx store.Tx) error { return tx.Delete(notes, "", "absent", 0) },
			func(err error) bool { return fault.Is(err, fault.NotFound) }, 1},
		"one is refused what another made": {makes("before", nil), func(err error) bool { return fault.Is(err, fault.Exists) }, 1},
		"one writes and fails":             {makes("own", errOwn), func(err error) bool { return errors.Is(err, errOwn) }, 2},
		"one writes and panics": {func(tx store.Tx) error {
			_ = makes("own", nil)(tx)
			panic(errOwn)
		}, func(err error) bool { return errors.Is(err, errUnwound) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "meshgate.db"), Kinds: []*model.Kind{notes}, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				runs := 0
				errs := together(t, s.(*sqlite), func(tx store.Tx) error {
					runs++
					return makes("before", nil)(tx)
				}, c.fn, makes("after", nil))
				if errs[0] != nil || !c.want(errs[1]) || errs[2] != nil || runs != c.runs {
					t.Errorf("%v after %d runs, want %d", errs, runs, c.runs)
				}
				if n, revision := s.(*sqlite).count(t), s.Revision(); n != 2 || revision != 2 {
					t.Errorf("%d rows and revision %d", n, revision)
				}
			})
		})
	}
}
