package tokencache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// files are the contents of a run directory. What was written or removed without an error
// stays so after a power failure.
type files interface {
	// read returns the content, or [os.ErrNotExist] if there is no such file.
	read(name string) ([]byte, error)
	write(name string, data []byte) error
	// remove does not fail if there is no such file.
	remove(name string) error
	// sync makes the writes and removals of an earlier process durable.
	sync() error
}

// runDirectory is the path of the run directory.
type runDirectory string

func (d runDirectory) read(name string) ([]byte, error) {
	return readLimited(filepath.Join(string(d), name), maxSettings)
}

// write replaces a file. Readers see the old or the new content, and a power failure
// afterwards does not bring the old content back.
func (d runDirectory) write(name string, data []byte) error {
	f, err := os.CreateTemp(string(d), "."+name+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(string(d), name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name()))
	}
	return d.sync()
}

// remove succeeds only once the directory is synced, even if the file does not exist,
// because an earlier attempt may have removed it without the sync. It checks for the file
// first, because a read-only file system refuses even to remove a file that does not exist.
func (d runDirectory) remove(name string) error {
	path := filepath.Join(string(d), name)
	_, err := os.Lstat(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return d.sync()
}

func (d runDirectory) sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
