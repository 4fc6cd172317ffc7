// Package durable makes what was done to files survive a crash of the machine.
package durable

import (
	"errors"
	"os"
)

// SyncDir returns once what was created, renamed and removed in a directory is on disk.
// Without it a file that was synced may be gone after a crash, or be the one before. The
// error names the directory.
func SyncDir(path string) error {
	dir, err := os.Open(path) //nolint:gosec // a directory that the caller writes to
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
