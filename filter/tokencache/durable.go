package tokencache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeDurably replaces a file, so that readers see the old or the new content,
// and so that a power failure afterwards does not bring the old one back.
func writeDurably(dir, name string, data []byte) error {
	f, err := os.CreateTemp(dir, "."+name+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name()))
	}
	return syncDirectory(dir)
}

// removeDurably removes a file if it is there, for good.
func removeDurably(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return syncDirectory(dir)
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the directory is the operator's
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
