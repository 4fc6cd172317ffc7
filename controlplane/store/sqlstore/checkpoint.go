package sqlstore

import (
	"errors"
	"fmt"
	"time"
)

// SQLite moves commits from the log into the database file when the log is long, and
// when the last connection goes. Until then the file alone is an old database, or an
// empty one, for whoever copies it. And readers that overlap without end keep the log
// from ever beginning anew. So the writer empties the log itself: some time after a
// commit, and at its end.
const (
	// checkpointAfter is how long a commit may stand in the log alone.
	checkpointAfter = 30 * time.Second
	// checkpointWait bounds how long the writer waits for views of older states. New
	// views do not delay it: they see the newest state, which needs no log then.
	checkpointWait = 100 * time.Millisecond
	// busyTimeout bounds every other wait for a lock of another process.
	busyTimeout = 10 * time.Second
)

// checkpoints is the timer of a writer.
type checkpoints struct {
	after time.Duration
	timer *time.Timer // nil while the log is known to be empty
	// failing says that the last one failed, which is logged once.
	failing bool
}

// due says that the log holds something.
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

// checkpoint writes the log into the database file and empties it. It reports false
// if somebody reads an older state and has to be waited for.
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

// empty is a step of the writer between two transactions. What could not be done is
// tried again after the same time.
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

// leave empties the log at the end of the store, so that the database file is
// complete without it.
func (w *writer) leave() {
	if w.lost {
		return // nobody knows what the session would write
	}
	done, err := w.session.checkpoint()
	if err != nil || !done {
		w.log.Warn("the log of the database could not be emptied at the end: a copy needs the file with -wal at the end of its name, too", "error", err)
	}
}
