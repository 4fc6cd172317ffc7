package sqlstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/store"
)

// A COMMIT can report an error and have taken effect: its last frame was written, and
// something behind it failed. Whoever is then told that nothing was changed does not
// publish a revocation that has taken place. So the writer answers nobody before it
// has read what is in the database.
//
// The number of the commit in the row 'commit' tells it, which every transaction that
// writes sets to one that was never used: this process holds the lock of the file, so
// nobody else writes there. A revision would not do, for not every commit takes one.
//
// SQLite may have written a commit that nobody can read, as when fsync fails; it was
// not made, and the next one overwrites it. If the process dies before, the next
// process finds it made, and publishes it like everything that it finds at its start.

// How long the writer waits between two looks at a database that cannot be read.
// No event says that a disk is back.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = 5 * time.Second
)

// doubt says whether the outcome of a commit is unknown.
type doubt struct {
	unknown atomic.Bool
	// ending is closed when nobody waits any more for an outcome that is not known.
	ending chan struct{}
	once   sync.Once
}

// Undecided implements [store.Undecided].
func (s *sqlite) Undecided() string {
	if s.writer.doubt.unknown.Load() {
		return "the database cannot be read: it is not known whether the last change was made"
	}
	return ""
}

// GiveUp implements [store.Undecided].
func (s *sqlite) GiveUp() { s.writer.doubt.once.Do(func() { close(s.writer.doubt.ending) }) }

// readNumber returns the number of the newest commit, 0 if none has one.
func readNumber(s *session) (uint64, error) {
	var n int64
	_, err := s.row(`SELECT value FROM meta WHERE name = 'commit'`, nil, &n)
	return uint64(n), err //nolint:gosec // written from uint64
}

// number gives the transaction a number that no other one has, whatever becomes of it.
func (b *transaction) number() error {
	b.tried++
	_, err := b.session.exec(`INSERT INTO meta (name, value) VALUES ('commit', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, b.tried)
	return err
}

// settle returns when it is known whether a COMMIT that failed took effect, and nil if
// it did. When the store ends before that, the error is [store.ErrUndecided], and the
// writer has to end: it does not know what it would build upon.
func (b *transaction) settle(failed error) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		made, err := b.made()
		if err == nil {
			return b.decided(made, failed)
		}
		if !b.doubt.unknown.Swap(true) {
			b.troubles.set(store.Unknown, failed)
			b.log.Error("it is not known whether a commit took effect; nothing is written until the database can be read", "commit_error", failed, "error", err)
		}
		if !b.pause(pause) {
			b.lost = true
			b.log.Error("the store ends, and it is not known whether its last commit took effect", "error", failed)
			return fmt.Errorf("%w (%w)", store.ErrUndecided, failed)
		}
	}
}

// pause waits before the database is looked at again; false if it is not.
func (w *writer) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.closing:
	case <-w.doubt.ending:
	}
	return false
}

// decided ends the doubt.
func (b *transaction) decided(made bool, failed error) error {
	if b.doubt.unknown.Swap(false) || made {
		b.log.Warn("it is known what became of a commit that reported an error", "took_effect", made, "error", failed)
		b.troubles.set(store.NoTrouble, nil)
	}
	if made {
		return nil
	}
	return failed
}

// made reads whether the transaction was committed, after ending it if it was not. It
// fails if that cannot be told.
func (b *transaction) made() (bool, error) {
	_ = b.session.control("ROLLBACK") // of what SQLite has not ended itself
	// This fails while there is a transaction, and sees the newest state otherwise.
	if err := b.session.control("BEGIN"); err != nil {
		return false, err
	}
	number, err := readNumber(b.session)
	if err != nil {
		return false, err
	}
	revision, err := readRevision(b.session)
	if err != nil {
		return false, err
	}
	if err := b.session.control("ROLLBACK"); err != nil {
		return false, err
	}
	switch {
	case number == b.tried && revision == b.rows.revision:
		return true, nil
	case number == b.committed && revision == b.revision:
		return false, nil
	}
	return false, fmt.Errorf("the database holds commit %d of revision %d, neither what was there (%d, %d) nor what was to be (%d, %d)",
		number, revision, b.committed, b.revision, b.tried, b.rows.revision)
}
