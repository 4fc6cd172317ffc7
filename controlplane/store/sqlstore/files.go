package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/meshgate/meshgate/xds/durable"
)

// maxLinks is how many links in a row lead to a file at most, as Linux has it.
const maxLinks = 40

// real is the path of the file that a path leads to, which need not exist yet. SQLite puts
// the log beside that file and not beside a link to it, and two links to one file must not
// have a lock each.
func real(path string) (string, error) {
	for range maxLinks {
		whole, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Abs(whole)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, filepath.Base(path))
		to, err := os.Readlink(path)
		if err != nil { // nothing is there
			return filepath.Abs(path)
		}
		if path = to; !filepath.IsAbs(to) {
			path = filepath.Join(dir, to)
		}
	}
	return "", fmt.Errorf("%s: too many links", path)
}

// resolved is real, or the path itself where that cannot be found out: whoever opens it
// will hear why.
func resolved(path string) string {
	if to, err := real(path); err == nil {
		return to
	}
	return path
}

// Present reports whether there is a database at a path, or a part of one: its file
// or its log holds something.
func Present(path string) (bool, error) {
	path = resolved(path)
	file, err := size(path)
	if err != nil {
		return false, err
	}
	log, err := size(path + "-wal")
	return file > 0 || log > 0, err
}

// Whole returns an error unless the file of a database holds everything by itself:
// whoever moves it without its log would lose what stands there alone.
func Whole(path string) error {
	path = resolved(path)
	log, err := size(path + "-wal")
	if err == nil && log > 0 {
		err = fmt.Errorf("the database %s is not complete without its log %[1]s-wal", path)
	}
	return err
}

// size is that of a file, 0 if there is none.
func size(path string) (int64, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return info.Size(), nil
}

// lockFile claims a database for this process, because the feed knows only of commits
// made here, and then creates its file if need be, for its owner only.
func lockFile(path string) (*os.File, error) {
	// SQLite has locks of its own on the database file, hence another one.
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process uses it: %w", err), lock.Close())
	}
	if err := create(path); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// create creates the file of a database that does not exist. SQLite would throw a log
// away that stands beside an empty file.
func create(path string) error {
	file, err := size(path)
	if err != nil {
		return err
	}
	log, err := size(path + "-wal")
	if err != nil {
		return err
	}
	if file == 0 && log > 0 {
		return fmt.Errorf("it is missing or empty, but its log %s-wal holds something: put the file back that belongs to the log, or restore a backup", path)
	}
	db, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	return errors.Join(db.Close(), durable.SyncDir(filepath.Dir(path)))
}

// withoutLog reports whether a file exists whose contents may have been left behind
// in its log, as happens to who copies only one of both.
func withoutLog(path string) (bool, error) {
	file, err := size(path)
	if err != nil {
		return false, err
	}
	log, err := size(path + "-wal")
	return file > 0 && log == 0, err
}
