package sqlstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/store"
)

// A COMMIT can report an error although it has taken effect: its last frame was written, and
// something after that failed. A caller that is told that nothing was changed does not
// publish a revocation that has taken place. So the writer answers nobody before it has read
// what is in the database.
//
// The row 'commit' holds the number of the newest commit. Every transaction that writes sets
// it to a number that was never used. Nobody else writes the row, because this process holds
// the lock of the file. The revision would not be enough, because not every commit takes one.
//
// SQLite may have written a commit that nobody can read, as when fsync fails. Such a commit
// has not taken effect, and the next one overwrites it. If the process dies before that, the
// next process finds it in effect, and publishes it like everything that it finds at its
// start.

// The shortest and the longest wait between two looks at a database that cannot be read. The
// system does not report that a disk is back.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = 5 * time.Second
)

// doubt holds whether the outcome of a commit is unknown.
type doubt struct {
	unknown atomic.Bool
	// ending is closed when nobody waits for an unknown outcome any more.
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

// readNumber returns the number of the newest commit, 0 if there is none.
func readNumber(s *session) (uint64, error) {
	var n int64
	_, err := s.row(`SELECT value FROM meta WHERE name = 'commit'`, nil, &n)
	return uint64(n), err //nolint:gosec // written from uint64
}

// number gives the transaction a number that was never used, even by a transaction that
// failed.
func (b *transaction) number() error {
	b.tried++
	_, err := b.session.exec(`INSERT INTO meta (name, value) VALUES ('commit', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, b.tried)
	return err
}

// settle waits until it is known whether a COMMIT that reported an error took effect. It
// returns nil if it did. If the store ends before that, it returns [store.ErrUndecided], and
// the writer has to end, because it does not know the state of the database.
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

// pause waits before the next look at the database. It returns false if the store ends.
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

// decided ends the doubt, and returns the error of the commit unless it took effect.
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

// made ends the transaction if SQLite has not ended it, and reads whether it was committed.
// It fails if this cannot be read.
func (b *transaction) made() (bool, error) {
	_ = b.session.control("ROLLBACK") // SQLite may have ended the transaction already
	// BEGIN fails while a transaction is open. Otherwise it sees the newest state.
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
