package seal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/meshgate/meshgate/xds/durable"
)

// Load returns the keys of a control plane. value is the content of the environment variable
// for the keys and wins if it is not empty. Otherwise the file at path holds the same; see
// [Read]. If the file does not exist, the error is [fs.ErrNotExist]. Errors are one line that
// says what to do, and never contain a key.
func Load(path, value string) (*Keys, error) {
	r, err := Read(path, value)
	if err != nil {
		return nil, err
	}
	return r.Keys()
}

// Make is Load for a database that does not exist yet: it generates a missing file with mode
// 0600. For an existing database the generated key would be wrong.
func Make(path, value string) (*Keys, error) {
	keys, err := Load(path, value)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	if err := generate(path); err != nil {
		return nil, fmt.Errorf("generating the encryption key file %s: %w", path, err)
	}
	return Load(path, value)
}

// Read returns the root keys from which Load derives the keys.
func Read(path, value string) (*Ring, error) {
	if value != "" {
		r, err := parse(value)
		if err != nil {
			return nil, fmt.Errorf("encryption key from the environment: %w", err)
		}
		return r, nil
	}
	r, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("encryption key file %s: %w", path, err)
	}
	return r, nil
}

// read reads a key file. It refuses a file that others than its owner can read.
func read(path string) (*Ring, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, bare(err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("its mode %04o lets others use it; run chmod 600", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, bare(err)
	}
	if len(text) == maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile-1)
	}
	return parse(string(text))
}

// generate writes a new key file. When it returns, either the whole key is on disk at path,
// or nothing is. A file that another process creates at the same time is kept.
func generate(path string) error {
	return place(path, new(Ring).Rotated(false), func(tmp string) error {
		if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}, func(string) error { return nil })
}

// Write replaces the key file at path, with mode 0600. When it returns, the new file is on
// disk. If it breaks off, either the old or the new file is there, complete.
func Write(path string, r *Ring) error {
	return write(path, r, func(string) error { return nil })
}

// write is Write with a function that is called between its steps. Its error breaks off the
// write.
func write(path string, r *Ring, between func(step string) error) error {
	info, err := os.Lstat(path)
	if err != nil {
		return bare(err)
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a file of its own but a link: whoever provides it must replace it")
	}
	return place(path, r, func(tmp string) error { return os.Rename(tmp, path) }, between)
}

// place writes a key file beside a path, and then moves it there with put.
func place(path string, r *Ring, put func(tmp string) error, between func(step string) error) error {
	dir := filepath.Dir(path)
	// CreateTemp uses mode 0600.
	tmp, err := os.CreateTemp(dir, ".key-*")
	if err != nil {
		return bare(err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // a leftover is a second name of the same keys, 0600
	_, err = tmp.WriteString(r.Text())
	if err == nil {
		err = between("written")
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return bare(err)
	}
	for _, step := range []func() error{
		func() error { return between("synchronised") },
		func() error { return put(tmp.Name()) },
		func() error { return between("placed") },
		func() error { return durable.SyncDir(dir) },
	} {
		if err := step(); err != nil {
			return bare(err)
		}
	}
	return nil
}

// bare removes the path from an error whose reader knows the path.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
