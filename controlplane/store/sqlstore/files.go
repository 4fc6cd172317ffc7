package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/meshgate/meshgate/xds/durable"
)

// maxLinks is the number of links that may be followed in a row, as in Linux.
const maxLinks = 40

// real returns the path of the file that a path leads to. The file need not exist. SQLite
// puts the log beside the file and not beside a link to it, and two links to one file must
// not have a lock each.
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
		if err != nil { // nothing exists there
			return filepath.Abs(path)
		}
		if path = to; !filepath.IsAbs(to) {
			path = filepath.Join(dir, to)
		}
	}
	return "", fmt.Errorf("%s: too many links", path)
}

// resolved returns the result of real, or the path itself if real fails: opening the path
// will report the error.
func resolved(path string) string {
	if to, err := real(path); err == nil {
		return to
	}
	return path
}

// Present reports whether there is a database at a path, or a part of one: its file or its
// log is not empty.
func Present(path string) (bool, error) {
	path = resolved(path)
	file, err := size(path)
	if err != nil {
		return false, err
	}
	log, err := size(path + "-wal")
	return file > 0 || log > 0, err
}

// Whole returns an error unless the file of a database is complete without its log. If such a
// file is moved without the log, commits that are only in the log are lost.
func Whole(path string) error {
	path = resolved(path)
	log, err := size(path + "-wal")
	if err == nil && log > 0 {
		err = fmt.Errorf("the database %s is not complete without its log %[1]s-wal", path)
	}
	return err
}

// size returns the size of a file, 0 if it does not exist.
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

// create creates the file of a new database. It creates none beside a log, because SQLite
// deletes a log beside an empty file.
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

// withoutLog reports whether a file exists whose latest commits may be in a log that is
// missing. This happens if only one of the two files is copied.
func withoutLog(path string) (bool, error) {
	file, err := size(path)
	if err != nil {
		return false, err
	}
	log, err := size(path + "-wal")
	return file > 0 && log == 0, err
}
