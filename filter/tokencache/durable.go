package tokencache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// files are what a run directory holds. What has been written or removed without
// an error stays so after a power failure.
type files interface {
	// read returns the content, [os.ErrNotExist] if there is none.
	read(name string) ([]byte, error)
	write(name string, data []byte) error
	// remove is no error if there is no such file.
	remove(name string) error
	// sync brings to the disk what an earlier process has written or removed.
	sync() error
}

// runDirectory is the path of the directory with the settings file.
type runDirectory string

func (d runDirectory) read(name string) ([]byte, error) {
	return readLimited(filepath.Join(string(d), name), maxSettings)
}

// write replaces a file, so that readers see the old or the new content, and so
// that a power failure afterwards does not bring the old one back.
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

// remove counts only once the directory is on the disk: also when the file is not
// there, for an earlier attempt may have come as far as that. It looks first, for a
// file system that may not be written refuses to remove even what it does not have.
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
