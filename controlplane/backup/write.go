package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/xds/durable"
)

// Source says what is backed up.
type Source struct {
	// Main and Status are the paths of the databases. Status may not exist.
	Main, Status string
	// Key returns the key file that opens the main database. main is a copy of that
	// database. Passphrase encrypts the key file in the backup; without a passphrase the key
	// is left out.
	Key        func(ctx context.Context, main string) (string, error)
	Passphrase string
	// Program is the version of the program.
	Program string
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
}

// Write writes a backup with mode 0600 to a path that must not exist. When it returns,
// either the whole backup is on disk under the path, or nothing is. The databases may be in
// use, by this or another process. Parts are collected in the directory of the path, which
// needs room for twice their size.
func Write(ctx context.Context, s Source, path string) (m Manifest, err error) {
	if _, err := os.Lstat(path); err == nil {
		return m, exists(path)
	}
	work, err := newWork(filepath.Dir(path))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	if m, err = s.collect(ctx, work.path); err != nil {
		return m, err
	}
	whole := filepath.Join(work.path, "backup")
	if err := pack(m, work.path, whole); err != nil {
		return m, err
	}
	if err := publish(whole, path); err != nil {
		return m, err
	}
	return m, durable.SyncDir(filepath.Dir(path))
}

// collect writes the parts into a directory.
func (s *Source) collect(ctx context.Context, work string) (m Manifest, err error) {
	now := s.Now
	if now == nil {
		now = time.Now
	}
	m = Manifest{Format: Format, Program: s.Program, Time: now().UTC().Truncate(time.Second)}
	main := filepath.Join(work, MainPart)
	if err := snapshot(ctx, s.Main, main); err != nil {
		return m, err
	}
	about, err := sqlstore.Describe(ctx, main)
	if err != nil {
		return m, err
	}
	m.Incarnation, m.Revision = about.Incarnation, about.Revision
	names := []string{MainPart}
	if there, err := sqlstore.Present(s.Status); err != nil {
		return m, err
	} else if there {
		names = append(names, StatusPart)
		if err := snapshot(ctx, s.Status, filepath.Join(work, StatusPart)); err != nil {
			return m, err
		}
	}
	if s.Passphrase != "" {
		names = append(names, KeyPart)
		key, err := s.Key(ctx, main)
		if err != nil {
			return m, err
		}
		if err := wrap(key, s.Passphrase, filepath.Join(work, KeyPart)); err != nil {
			return m, err
		}
	}
	for _, name := range names {
		p, err := describe(work, name)
		if err != nil {
			return m, err
		}
		m.Parts = append(m.Parts, p)
	}
	return m, nil
}

// snapshot writes a database into a new file that only its owner can read. SQLite itself
// would use the mode of the umask.
func snapshot(ctx context.Context, database, into string) error {
	if err := os.WriteFile(into, nil, 0o600); err != nil {
		return err
	}
	return sqlstore.Snapshot(ctx, database, into)
}

func describe(work, name string) (Part, error) {
	f, err := os.Open(filepath.Join(work, name)) //nolint:gosec // a name of this package
	if err != nil {
		return Part{}, err
	}
	defer f.Close() // it was only read
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return Part{Name: name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// pack writes manifest and parts into one file and waits until it is on disk.
func pack(m Manifest, work, into string) error {
	f, err := os.OpenFile(into, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in our own directory
	if err != nil {
		return err
	}
	err = packInto(f, m, work)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func packInto(f io.Writer, m Manifest, work string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n') // people read it in a terminal
	t := tar.NewWriter(f)
	header := func(name string, size int64) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: m.Time}
	}
	if err := t.WriteHeader(header(manifestName, int64(len(text)))); err != nil {
		return err
	}
	if _, err := t.Write(text); err != nil {
		return err
	}
	for _, p := range m.Parts {
		if err := t.WriteHeader(header(p.Name, p.Size)); err != nil {
			return err
		}
		if err := copyInto(t, filepath.Join(work, p.Name)); err != nil {
			return err
		}
	}
	return t.Close()
}

func copyInto(w io.Writer, path string) error {
	f, err := os.Open(path) //nolint:gosec // a name of this package
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	_, err = io.Copy(w, f)
	return err
}
