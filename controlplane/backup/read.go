package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// maxManifest bounds how much of a manifest is read.
const maxManifest = 1 << 20

// Unpack writes the parts of a backup into an empty directory and checks each against its
// digest. Errors say what is wrong with the file.
func Unpack(path, dir string) (Manifest, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names this file
	if err != nil {
		return Manifest{}, err
	}
	defer f.Close() // it was only read
	m, err := unpack(tar.NewReader(f), dir)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = errors.New("it is not complete")
	}
	if err != nil {
		return m, fmt.Errorf("backup %s: %w", path, err)
	}
	return m, nil
}

func unpack(t *tar.Reader, dir string) (Manifest, error) {
	m, err := readManifest(t)
	if err != nil {
		return m, err
	}
	for _, p := range m.Parts {
		h, err := t.Next()
		if err != nil {
			return m, err
		}
		if h.Name != p.Name || h.Size != p.Size {
			return m, fmt.Errorf("it holds %q where its manifest says %q", h.Name, p.Name)
		}
		if err := extract(t, p, filepath.Join(dir, p.Name)); err != nil {
			return m, err
		}
	}
	if h, err := t.Next(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = fmt.Errorf("it holds %q, which is not in its manifest", h.Name)
		}
		return m, err
	}
	return m, nil
}

func readManifest(t *tar.Reader) (m Manifest, err error) {
	h, err := t.Next()
	if err != nil || h.Name != manifestName {
		return m, errors.New("it is no backup of meshgate")
	}
	text, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("its manifest cannot be read: %w", err)
	}
	if m.Format != Format {
		return m, fmt.Errorf("it has format %d, and this program reads %d: use the program that wrote it, version %s", m.Format, Format, m.Program)
	}
	known := []string{MainPart, StatusPart, KeyPart}
	for i, p := range m.Parts {
		// A name becomes a path below the directory, so no other name may be written.
		if !slices.Contains(known, p.Name) || slices.ContainsFunc(m.Parts[:i], func(o Part) bool { return o.Name == p.Name }) {
			return m, fmt.Errorf("its manifest names the part %q", p.Name)
		}
	}
	if !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Name == MainPart }) {
		return m, fmt.Errorf("its manifest does not name %s", MainPart)
	}
	return m, nil
}

// extract writes one part, readable only by its owner, and waits until it is on disk.
func extract(r io.Reader, p Part, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // a name of this package
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err = io.CopyN(io.MultiWriter(f, sum), r, p.Size); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != p.SHA256 {
		return fmt.Errorf("its part %s is damaged: it has another digest than the manifest says", p.Name)
	}
	return nil
}
