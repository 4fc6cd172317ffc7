package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// workPattern is the pattern of directories in which a backup is assembled.
	workPattern = ".backup-*"
	// workLock is a file in such a directory. The writer of the backup holds a lock on it. A
	// killed process holds no lock.
	workLock = "lock"
)

// work is the directory in which a backup is assembled.
type work struct {
	path string
	lock *os.File
}

// newWork makes a directory next to the future backup.
func newWork(dir string) (*work, error) {
	for {
		path, err := os.MkdirTemp(dir, workPattern)
		if err != nil {
			return nil, err
		}
		lock, err := lockWork(path, syscall.LOCK_EX)
		if err == nil {
			return &work{path, lock}, nil
		}
		// A process that looks for leftovers may have found the directory before it was
		// locked, and removed it.
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
}

// lockWork locks a directory, and checks that it still exists once the lock is held.
func lockWork(path string, how int) (*os.File, error) {
	name := filepath.Join(path, workLock)
	lock, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in our own directory
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", name, err), lock.Close())
	}
	held, err := lock.Stat()
	there, err2 := os.Stat(name)
	if err := errors.Join(err, err2); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if !os.SameFile(held, there) {
		return nil, errors.Join(fs.ErrNotExist, lock.Close())
	}
	return lock, nil
}

// remove removes the directory, and the lock last. If another process makes a new lock in
// between, it keeps the directory or removes it.
func (w *work) remove() error {
	list, err := os.ReadDir(w.path)
	errs := []error{err}
	for _, e := range list {
		if e.Name() != workLock {
			errs = append(errs, os.RemoveAll(filepath.Join(w.path, e.Name())))
		}
	}
	errs = append(errs, os.Remove(filepath.Join(w.path, workLock)))
	if err := os.Remove(w.path); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, w.lock.Close())...)
}

// removeLeft removes the leftovers of killed backups in a directory. A backup that is being
// written, by this process or another one, stays.
func removeLeft(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, workPattern))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range left {
		lock, err := lockWork(path, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			err = (&work{path, lock}).remove()
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// link is [os.Link]. Tests replace it with that of a file system without links.
var link = os.Link

// publish gives a complete file a name that no other file has. It uses a link because a link
// fails if the name exists, while a rename would replace the file.
func publish(whole, path string) error {
	err := link(whole, path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		err = claim(whole, path)
	}
	if errors.Is(err, fs.ErrExist) {
		return exists(path)
	}
	return err
}

// claim publishes on file systems without links, such as FAT and some network shares. It
// first claims the name with an empty file, which fails if a file exists, and then replaces
// only that file.
func claim(whole, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), os.Rename(whole, path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func exists(path string) error {
	return fmt.Errorf("%s exists: a backup is never written over another file", path)
}
