package seal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFile bounds what is read of a key file.
const maxFile = 4096

// Load returns the keys of a control plane. value is the content of the
// environment variable for the key (base64 of 32 bytes, as made by `openssl
// rand -base64 32`) and wins if it is not empty; otherwise the file at path
// holds the same. A file that does not exist is [fs.ErrNotExist].
// Errors are one line that says what to do and never contain the key.
func Load(path, value string) (*Keys, error) {
	root, err := Root(path, value)
	if err != nil {
		return nil, err
	}
	return New(root)
}

// Make is Load for a database that does not exist yet: a file that is missing is
// generated with mode 0600. Beside a database that exists, it would be another key
// than the one that opens it.
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

// Root is the root key that Load derives from, for those who keep a copy of it.
func Root(path, value string) ([]byte, error) {
	if value != "" {
		root, err := decode(value)
		if err != nil {
			return nil, fmt.Errorf("encryption key from the environment: %w", err)
		}
		return root, nil
	}
	root, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("encryption key file %s: %w", path, err)
	}
	return root, nil
}

// read reads a key file that nobody but its owner can read.
func read(path string) ([]byte, error) {
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
	return decode(string(text))
}

// decode reads the text form of a root key.
func decode(text string) ([]byte, error) {
	root, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		// The cause would quote a part of the key.
		return nil, errors.New("not valid base64")
	}
	if len(root) != RootSize {
		return nil, fmt.Errorf("the key has %d bytes, not %d", len(root), RootSize)
	}
	return root, nil
}

// generate writes a new key file. Either the whole key is on disk under the
// path when it returns, or nothing is; a file that another process put there
// in the meantime is kept.
func generate(path string) error {
	dir := filepath.Dir(path)
	root := make([]byte, RootSize)
	if _, err := rand.Read(root); err != nil {
		return err
	}
	// CreateTemp creates with mode 0600.
	tmp, err := os.CreateTemp(dir, ".key-*")
	if err != nil {
		return bare(err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // a leftover is a second name of the same key, 0600
	_, err = tmp.WriteString(base64.StdEncoding.EncodeToString(root) + "\n")
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return bare(err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return bare(err)
	}
	return syncDir(dir)
}

// syncDir makes a new name in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the path is the operator's
	if err != nil {
		return bare(err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// bare drops the path from an error whose reader knows it.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
