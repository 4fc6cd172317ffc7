package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// patience bounds all waits of the tests.
const patience = time.Minute

var errDisk = errors.New("disk I/O error")

// disk is the writer's connection to a disk that fails.
type disk struct {
	connection
	// commits is the number of further COMMITs that report an error; made makes them take
	// effect nevertheless.
	commits atomic.Int32
	made    atomic.Bool
	// away makes every statement fail that begins a transaction. leaves makes the disk go
	// away with the failing COMMIT.
	away, leaves atomic.Bool
	// asked and began each hold one signal that the writer has looked: while the disk was
	// away, and since it is back.
	asked, began chan struct{}
}

func (d *disk) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	switch {
	case query == "COMMIT" && d.commits.Load() > 0:
		d.commits.Add(-1)
		d.away.Store(d.leaves.Load())
		if !d.made.Load() {
			return nil, errDisk
		}
		if res, err := d.connection.ExecContext(ctx, query, args...); err != nil {
			return res, err
		}
		return nil, errDisk
	case strings.HasPrefix(query, "BEGIN") && d.away.Load():
		notice(d.asked)
		return nil, errDisk
	case strings.HasPrefix(query, "BEGIN"):
		notice(d.began)
	}
	return d.connection.ExecContext(ctx, query, args...)
}

func notice(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// badDisk puts a store on a disk whose next COMMIT reports an error.
func badDisk(t *testing.T, s *sqlite, made bool) *disk {
	t.Helper()
	d := &disk{asked: make(chan struct{}, 1), began: make(chan struct{}, 1)}
	d.made.Store(made)
	// Inside a transaction, the caller owns the session.
	if _, err := s.Update(t.Context(), model.Config, func(store.Tx) error {
		d.connection = s.writer.session.conn
		s.writer.session.conn = d
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d.commits.Store(1)
	return d
}

// fed returns the names that the feed has announced up to a revision.
func fed(t *testing.T, s store.Store, upTo uint64) (names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if upTo == 0 {
		return nil
	}
	for events, err := range s.Watch(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			names = append(names, fmt.Sprint(e.Revision, " ", e.Key.Name))
		}
		if events[0].Revision >= upTo {
			break
		}
	}
	return names
}

// look waits until the writer has looked in vain.
func (d *disk) look(t *testing.T) {
	t.Helper()
	select {
	case <-d.asked:
	case <-time.After(patience):
		t.Fatal("nobody asks for the outcome")
	}
}

// outcomeOf waits for the result of a write in another goroutine.
func outcomeOf(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("the write does not end")
		return nil
	}
}

// began starts a write, and returns when the writer has looked for its outcome in vain.
func began(t *testing.T, s *sqlite, d *disk, name string) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- write(t, s, name, 1) }()
	select {
	case <-d.asked:
	case err := <-ended:
		t.Fatalf("the write has ended before its outcome was known: %v", err)
	case <-time.After(patience):
		t.Fatal("nobody asks for the outcome")
	}
	return ended
}

// TestCommitThatReportsAnError: callers are told what has happened, not what COMMIT has
// reported. This includes commits that take no revision.
func TestCommitThatReportsAnError(t *testing.T) {
	for _, made := range []bool{true, false} {
		for _, quiet := range []bool{true, false} {
			t.Run(fmt.Sprintf("made=%v quiet=%v", made, quiet), func(t *testing.T) {
				s := openNotes(t)
				badDisk(t, s, made)
				kind, class := notes, model.Config
				if quiet {
					kind, class = whispers, model.Credential
				}
				commit, err := s.Update(t.Context(), class, func(tx store.Tx) error {
					_, err := tx.Create(&model.Resource{Kind: kind, Name: "a", Spec: &note{}})
					return err
				})
				if made != (err == nil) || (err != nil && !fault.Is(err, fault.Internal)) || made != (len(commit.Changes) == 1) {
					t.Errorf("the answer is %+v, %v", commit, err)
				}
				_, err = s.Update(t.Context(), class, func(tx store.Tx) error {
					_, err := tx.Create(&model.Resource{Kind: kind, Name: "a", Spec: &note{}})
					return err
				})
				if made != fault.Is(err, fault.Exists) {
					t.Errorf("the same again: %v", err)
				}
				if err := write(t, s, "b", 1); err != nil {
					t.Fatal(err)
				}
				want := []string{"1 a", "2 b"}
				if quiet {
					want = []string{"1 b"}
				}
				if diff := cmp.Diff(want, fed(t, s, s.Revision())); diff != "" {
					t.Errorf("feed (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestUnknownOutcome: as long as it is unknown whether a commit took effect, nobody is
// answered and nothing else is written. It does not matter whether the callers still wait.
func TestUnknownOutcome(t *testing.T) {
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprintf("made=%v", made), func(t *testing.T) {
			s := openNotes(t)
			d := badDisk(t, s, made)
			d.leaves.Store(true)
			ctx, goAway := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				_, err := s.Update(ctx, model.Config, func(tx store.Tx) error {
					_, err := tx.Create(&model.Resource{Kind: notes, Name: "a", Spec: &note{}})
					return err
				})
				gone <- err
			}()
			d.look(t)
			goAway()
			impatient, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Update(impatient, model.Config, func(store.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("another write: %v", err)
			}
			next := make(chan error, 1)
			go func() { next <- write(t, s, "b", 1) }()
			d.look(t) // the writer has looked again
			if s.Undecided() == "" {
				t.Error("the store does not say that it waits")
			}
			select {
			case err := <-gone:
				t.Fatalf("it was answered before the outcome was known: %v", err)
			case err := <-next:
				t.Fatalf("another write went past it: %v", err)
			default:
			}
			d.away.Store(false)
			if err := outcomeOf(t, gone); made != (err == nil) || (err != nil && !fault.Is(err, fault.Internal)) {
				t.Errorf("the answer is %v", err)
			}
			if err := outcomeOf(t, next); err != nil {
				t.Errorf("the next write: %v", err)
			}
			want := []string{"1 a", "2 b"}
			if !made {
				want = []string{"1 b"}
			}
			if diff := cmp.Diff(want, fed(t, s, s.Revision())); diff != "" || s.Undecided() != "" {
				t.Errorf("%q; feed (-want +got):\n%s", s.Undecided(), diff)
			}
		})
	}
}

// TestUnknownBatch: all transactions that are committed together get the same answer.
func TestUnknownBatch(t *testing.T) {
	s := openNotes(t)
	d := badDisk(t, s, true)
	d.leaves.Store(true)
	first := began(t, s, d, "first")
	var wg sync.WaitGroup
	for i := range 8 { // they wait for the writer, and then form a batch
		wg.Go(func() {
			if err := write(t, s, fmt.Sprint(i), 1); err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	d.leaves.Store(false)
	d.commits.Store(1)
	d.away.Store(false)
	if err := outcomeOf(t, first); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n := s.count(t); n != 9 || s.Revision() != 9 {
		t.Errorf("%d notes at revision %d", n, s.Revision())
	}
}

// TestEndWithAnUnknownOutcome: if a store is closed, or told that its process ends, nobody
// has to wait any more, and callers are told that the outcome is unknown.
func TestEndWithAnUnknownOutcome(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *sqlite){
		"close": func(t *testing.T, s *sqlite) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		},
		"give up": func(_ *testing.T, s *sqlite) { s.GiveUp() },
	} {
		t.Run(name, func(t *testing.T) {
			s := openNotes(t)
			d := badDisk(t, s, true)
			d.leaves.Store(true)
			ended := began(t, s, d, "a")
			end(t, s)
			if err := outcomeOf(t, ended); !errors.Is(err, store.ErrUndecided) || !fault.Is(err, fault.Unavailable) {
				t.Errorf("the answer is %v", err)
			}
			if err := write(t, s, "b", 1); !fault.Is(err, fault.Unavailable) || errors.Is(err, store.ErrUndecided) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestGivenUpStoreStillWrites: a process that ends can still write, as long as every outcome
// is known.
func TestGivenUpStoreStillWrites(t *testing.T) {
	s := openNotes(t)
	s.GiveUp()
	s.GiveUp()
	if err := write(t, s, "a", 1); err != nil {
		t.Fatal(err)
	}
	badDisk(t, s, true)
	if err := write(t, s, "b", 1); err != nil {
		t.Error(err)
	}
}

// TestForeignCommit: if the database is neither in the old state nor in the state after the
// commit, it is taken for neither.
func TestForeignCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s := openNotesAt(t, path)
	d := badDisk(t, s, false)
	d.leaves.Store(true)
	ended := began(t, s, d, "a")
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.ExecContext(t.Context(), `UPDATE meta SET value = value + 1 WHERE name = 'revision'`); err != nil {
		t.Fatal(err)
	}
	d.away.Store(false)
	for range 2 { // the writer has looked at it
		select {
		case err := <-ended:
			t.Fatalf("the answer is %v", err)
		case <-d.began:
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := outcomeOf(t, ended); !errors.Is(err, store.ErrUndecided) {
		t.Errorf("the answer is %v", err)
	}
}

// TestRevocationOfAnUnknownCommit: a deletion whose COMMIT reported an error is published if
// it took effect, and abandoned only if it did not.
func TestRevocationOfAnUnknownCommit(t *testing.T) {
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprintf("made=%v", made), func(t *testing.T) {
			s := openNotes(t)
			if err := write(t, s, "a", 1); err != nil {
				t.Fatal(err)
			}
			d := badDisk(t, s, made)
			d.leaves.Store(true)
			var published atomic.Int32
			revoker := &admittest.Revoker{OnPublish: func(_ context.Context, c store.Commit) error {
				if len(c.Changes) != 1 || c.Changes[0].Op != store.Deleted || c.Revision != 2 {
					t.Errorf("published %+v", c)
				}
				published.Add(1)
				return nil
			}}
			gate := admit.New(s, revoker, []*model.Kind{notes}, time.Now).As(model.System("test"))
			ctx, goAway := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := gate.Write(ctx, model.Config, func(tx store.Tx) error { return tx.Delete(notes, "", "a", 0) })
				ended <- err
			}()
			d.look(t)
			goAway() // the client is gone, but its revocation must be published nevertheless
			d.look(t)
			if open := revoker.Open.Load(); open != 1 || published.Load() != 0 {
				t.Errorf("%d writes are open and %d published before the outcome is known", open, published.Load())
			}
			d.away.Store(false)
			err := outcomeOf(t, ended)
			if made != (err == nil) || made != (published.Load() == 1) || revoker.Open.Load() != 0 {
				t.Errorf("%v; %d published, %d open", err, published.Load(), revoker.Open.Load())
			}
		})
	}
}
