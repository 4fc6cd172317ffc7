package sqlstore

import (
	"errors"
	"fmt"
	"time"
)

// SQLite moves commits from the log into the database file when the log is long, and when the
// last connection closes. Until then, a copy of the file alone is an old or even an empty
// database. Overlapping readers can also keep the log from ever being reset. So the writer
// itself empties the log: some time after a commit, and at its end.
const (
	// checkpointAfter is how long a commit may be in the log alone.
	checkpointAfter = 30 * time.Second
	// checkpointWait bounds how long the writer waits for views of older states. New views do
	// not prolong the wait: they see the newest state, which does not need the log then.
	checkpointWait = 100 * time.Millisecond
	// busyTimeout bounds every other wait for a lock of another process.
	busyTimeout = 10 * time.Second
)

// checkpoints holds the timer of a writer.
type checkpoints struct {
	after time.Duration
	timer *time.Timer // nil while the log is known to be empty
	// failing is set while checkpoints fail, so that only the first failure is logged.
	failing bool
}

// due starts the timer, because the log may not be empty.
func (c *checkpoints) due() {
	if c.timer == nil {
		c.timer = time.NewTimer(c.after)
	}
}

func (c *checkpoints) c() <-chan time.Time {
	if c.timer == nil {
		return nil
	}
	return c.timer.C
}

func (c *checkpoints) stop() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// checkpoint writes the log into the database file and empties it. It returns false if it has
// to wait for a reader of an older state.
func (s *session) checkpoint() (done bool, err error) {
	if err := s.control(waiting(checkpointWait)); err != nil {
		return false, err
	}
	var busy, frames, moved int
	_, err = s.row("PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &frames, &moved)
	return err == nil && busy == 0, errors.Join(err, s.control(waiting(busyTimeout)))
}

func waiting(d time.Duration) string {
	return fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds())
}

// empty is a step of the writer between two transactions. If it cannot empty the log, it
// tries again after the same time.
func (w *writer) empty() {
	w.checkpoints.stop()
	done, err := w.session.checkpoint()
	if err != nil && !w.checkpoints.failing {
		w.log.Error("the log of the database could not be emptied, and will be", "error", err)
	}
	w.checkpoints.failing = err != nil
	if !done {
		w.checkpoints.due()
	}
}

// leave empties the log at the end of the store, so that the database file is complete
// without it.
func (w *writer) leave() {
	if w.lost {
		return // the outcome of the last commit is unknown, so the session must not write
	}
	done, err := w.session.checkpoint()
	if err != nil || !done {
		w.log.Warn("the log of the database could not be emptied at the end: a copy needs the file with -wal at the end of its name, too", "error", err)
	}
}
