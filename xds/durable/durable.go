// Package durable makes changes of files survive a crash of the machine.
package durable

import (
	"errors"
	"os"
)

// SyncDir returns once the creations, renames and removals in a directory are on disk. Without
// it, a synced file may be gone after a crash, or be its previous version. The error names the
// directory.
func SyncDir(path string) error {
	dir, err := os.Open(path) //nolint:gosec // a directory that the caller writes to
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
