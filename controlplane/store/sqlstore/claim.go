package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/meshgate/meshgate/controlplane/filelock"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Claim is the right of this process to open a database: the feed knows only the commits of one process. Open
// claims a database by itself, unless it is given a claim.
type Claim struct {
	path string
	lock *os.File
}

// AwaitClaim claims a database, and waits for that until no other process has it. If it has to wait, it calls
// waits before, with the path of the file. The end of ctx ends the wait.
func AwaitClaim(ctx context.Context, path string, waits func(path string)) (*Claim, error) {
	path, err := real(path)
	if err != nil {
		return nil, err
	}
	waited := false
	for {
		lock, err := openLock(path)
		if err != nil {
			return nil, err
		}
		err = filelock.Await(ctx, lock, func() {
			if !waited {
				waits(path)
			}
			waited = true
		})
		if err != nil {
			return nil, err
		}
		there, err := isThere(lock)
		if there && err == nil {
			return &Claim{path, lock}, nil
		}
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}

// Close gives the claim back, unless a database was opened with it.
func (c *Claim) Close() error {
	if c == nil || c.lock == nil {
		return nil
	}
	return c.take().Close()
}

// take returns the lock, whose owner is then the caller.
func (c *Claim) take() *os.File {
	lock := c.lock
	c.lock = nil
	return lock
}

// OpenStatus is [OpenStatus] for a database that is claimed. The claim is over then, also if it fails.
func (c *Claim) OpenStatus(ctx context.Context) (store.Status, error) {
	return openStatus(ctx, c.path, c)
}

// claim returns the lock of a database, that of c or, if c is nil, a new one.
func claim(c *Claim, path string) (*os.File, error) {
	switch {
	case c == nil:
		return lockFile(path)
	case c.lock == nil || c.path != path:
		return nil, fmt.Errorf("it is not the database that was claimed, which was %s", c.path)
	}
	return c.take(), nil
}

// lockFile claims a database at once, or fails.
func lockFile(path string) (*os.File, error) {
	lock, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := filelock.Try(lock); err != nil {
		return nil, fmt.Errorf("another process uses it: %w", err)
	}
	return lock, nil
}

// openLock opens the file that is locked for a database. SQLite has its own locks on the database file, so it is
// another one.
func openLock(path string) (*os.File, error) {
	return os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the path is the operator's
}

// isThere reports whether an open file is still the one at its path: who removes a database while it is waited
// for may remove its lock, too, and the next process then locks another file.
func isThere(f *os.File) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(held, there), err
}
