package sqlstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// If the log cannot be synchronised, Linux says so once, and then takes its pages for written
// although they are not on the disk. Frames of earlier commits may be among them, because
// commits of class credential are not synchronised. The next synchronisation succeeds. A
// recovery after a loss of power, however, stops at the first frame that is missing. It would
// lose the commits behind that frame, which were answered as durable.
//
// So after such an error the log counts as unsynced, and the writer writes it once more before
// the next commit: that makes its pages dirty again. Moving the log into the database file would
// not do. If power fails during that, the part of the log that is on the disk is laid over newer
// pages. A new process cannot know what its predecessor was told, so it begins with this, too.
//
// The bytes come from the page cache, which holds them until memory is short.

// logError is the error of writing the log once more.
type logError struct{ err error }

func (e *logError) Error() string {
	return fmt.Sprintf("the log of the database, of which a part may not be on the disk, could not be written again: %v", e.err)
}

func (e *logError) Unwrap() error { return e.err }

// rewriteLog writes the bytes of a log over themselves and synchronises them. Readers may use it
// meanwhile. The caller holds the write lock of the database, so nobody shortens it. SQLite has
// no locks on this file, which closing it would release.
func rewriteLog(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the path is the operator's
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	part := make([]byte, 1<<20)
	for at := int64(0); ; {
		n, end := f.ReadAt(part, at)
		if end != nil && !errors.Is(end, io.EOF) {
			return end
		}
		if _, err := f.WriteAt(part[:n], at); err != nil {
			return err
		}
		if at += int64(n); end != nil {
			return f.Sync()
		}
	}
}

// syncLog makes durable what the log holds, unless it is so. The write lock is held.
func (w *writer) syncLog() error {
	if !w.unsynced {
		return nil
	}
	if err := w.rewrite(); err != nil {
		return &logError{err}
	}
	w.unsynced = false
	return nil
}

// syncedLog does what syncLog does, for a caller without the write lock.
func (w *writer) syncedLog() error {
	if !w.unsynced {
		return nil
	}
	b := w.transaction()
	return errors.Join(b.begin(w.full), b.rollback())
}
