package backup_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source returns a pair of databases in use.
func source(t *testing.T) backup.Source {
	t.Helper()
	dir := t.TempDir()
	keyFile := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{5}, 32)) + "\n"
	s := backup.Source{Main: filepath.Join(dir, "meshgate.db"), Status: filepath.Join(dir, "status.db"), Program: "v1", Key: func(context.Context, string) (string, error) { return keyFile, nil }}
	main, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: s.Main, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = main.Close() })
	status, err := sqlstore.OpenStatus(t.Context(), s.Status)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = status.Close() })
	return s
}

func TestWriteAndUnpack(t *testing.T) {
	s := source(t)
	s.Passphrase = "correct horse"
	dir := t.TempDir()
	file := filepath.Join(dir, "b")
	wrote, err := backup.Write(t.Context(), s, file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	data, err := os.ReadFile(file)
	if err != nil || bytes.Contains(data, bytes.Repeat([]byte{5}, 32)) || bytes.Contains(data, []byte("BQUFBQUF")) {
		t.Errorf("the backup shows the key, %v", err)
	}
	into := t.TempDir()
	read, err := backup.Unpack(file, into)
	if err != nil || read.Incarnation == "" || read.Incarnation != wrote.Incarnation || read.Program != "v1" || time.Since(read.Time) > time.Hour || !read.HasKey() || len(read.Parts) != 3 {
		t.Fatalf("%+v, %v", read, err)
	}
	if key, err := backup.Unwrap(filepath.Join(into, backup.KeyPart), s.Passphrase); err != nil || !strings.HasPrefix(key, "BQUFBQUF") {
		t.Errorf("the key: %v", err)
	}
	if _, err := backup.Unwrap(filepath.Join(into, backup.KeyPart), "wrong"); err == nil || !strings.Contains(err.Error(), "the passphrase is not the one") {
		t.Errorf("another passphrase: %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	s := source(t)
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Write(t.Context(), s, taken); err == nil || !strings.Contains(err.Error(), "never written over") {
		t.Errorf("over a file: %v", err)
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
		t.Errorf("%s, %v", text, err)
	}
	s.Main += "x"
	if _, err := backup.Write(t.Context(), s, filepath.Join(dir, "new")); err == nil || !strings.Contains(err.Error(), s.Main) {
		t.Errorf("of nothing: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b")
	if _, err := backup.Write(t.Context(), source(t), file); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(from, to string) []byte { return bytes.Replace(good, []byte(from), []byte(to), 1) }
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 1
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"something else":   {[]byte(strings.Repeat("no backup ", 200)), "it is no backup"},
		"nothing":          {nil, "it is no backup"},
		"a flipped bit":    {flipped, "is damaged"},
		"cut":              {good[:len(good)/2], "it is not complete"},
		"a newer format":   {replace(`"format": 1`, `"format": 2`), "it has format 2, and this program reads 1"},
		"a path elsewhere": {replace(`"name": "status.db"`, `"name": "../atus.d"`), `its manifest names the part "../atus.d"`},
		"no main database": {replace(`"name": "meshgate.db"`, `"name": "status.db"  `), `its manifest names the part "status.db"`},
		"another entry":    {replace("status.db\x00", "statux.db\x00"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "b")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := backup.Unpack(path, t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
