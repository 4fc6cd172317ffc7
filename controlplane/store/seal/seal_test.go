package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/store/seal"
)

func keys(t *testing.T, fill byte) *seal.Keys {
	t.Helper()
	k, err := seal.New(bytes.Repeat([]byte{fill}, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealOpens(t *testing.T) {
	k := keys(t, 1)
	sealed, err := k.Seal([]byte("hunter2"), []byte("where"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("hunter2")) {
		t.Error("the sealed value shows the secret")
	}
	again, err := k.Seal([]byte("hunter2"), []byte("where"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(sealed, again) {
		t.Error("sealing twice gave the same bytes")
	}
	plain, err := k.Open(sealed, []byte("where"))
	if err != nil || string(plain) != "hunter2" {
		t.Errorf("Open = %q, %v", plain, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	k := keys(t, 1)
	sealed, err := k.Seal([]byte("hunter2"), []byte("where"))
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	otherFormat := bytes.Clone(sealed)
	otherFormat[0]++
	for name, c := range map[string]struct {
		keys   *seal.Keys
		sealed []byte
		where  string
	}{
		"another key":   {keys(t, 2), sealed, "where"},
		"another place": {k, sealed, "elsewhere"},
		"changed":       {k, changed, "where"},
		"format":        {k, otherFormat, "where"},
		"cut":           {k, sealed[:5], "where"},
		"empty":         {k, nil, "where"},
	} {
		t.Run(name, func(t *testing.T) {
			if plain, err := c.keys.Open(c.sealed, []byte(c.where)); err != seal.ErrOpen { //nolint:errorlint // it is returned as it is
				t.Errorf("Open = %q, %v", plain, err)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	k := keys(t, 1)
	base := k.Digest("label", "value")
	if base != k.Digest("label", "value") {
		t.Error("the digest of one value differs")
	}
	for name, other := range map[string]string{
		"key":      keys(t, 2).Digest("label", "value"),
		"label":    k.Digest("other", "value"),
		"value":    k.Digest("label", "other"),
		"boundary": k.Digest("labelv", "alue"),
	} {
		if other == base {
			t.Errorf("another %s gave the same digest", name)
		}
	}
}

func TestKeysArePrintedRedacted(t *testing.T) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, keys(t, 7)); got != "[redacted]" {
			t.Errorf("%s printed %q", verb, got)
		}
	}
}

func TestMakeGeneratesOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var wg sync.WaitGroup
	digests := make([]string, 8)
	for i := range digests {
		wg.Go(func() {
			k, err := seal.Make(path, "")
			if err != nil {
				t.Error(err)
				return
			}
			digests[i] = k.Digest("", "x")
		})
	}
	wg.Wait()
	for _, d := range digests {
		if d != digests[0] {
			t.Fatal("racing first starts ended with different keys")
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLoadGeneratesNothing: a new key would not open the existing database.
func TestLoadGeneratesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	if _, err := seal.Load(path, ""); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLoadPrefersTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	value := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{3}, seal.RootSize))
	k, err := seal.Make(path, value+"\n")
	if err != nil {
		t.Fatal(err)
	}
	if k.Digest("", "x") != keys(t, 3).Digest("", "x") {
		t.Error("the key is not the one of the environment")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a file was generated as well: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{3}, seal.RootSize))
	short := base64.StdEncoding.EncodeToString([]byte("c2hvcnQ"))
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ path, value, want string }{
		"group can read":  {path: file("group", good, 0o640), want: "0640"},
		"others can read": {path: file("others", good, 0o604), want: "0604"},
		"empty file":      {path: file("empty", "", 0o600), want: "0 bytes"},
		"no base64":       {path: file("text", "!!"+good, 0o600), want: "base64"},
		"short":           {path: file("short", short, 0o600), want: "7 bytes"},
		"directory":       {path: dir, want: "regular"},
		"no directory":    {path: filepath.Join(dir, "none", "key"), want: "no such file"},
		"environment":     {path: filepath.Join(dir, "unused"), value: "!!" + good, want: "environment"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := seal.Make(c.path, c.value)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one about %q", err, c.want)
			}
			if strings.Contains(err.Error(), good[:8]) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error shows the key or has lines: %q", err)
			}
		})
	}
}

func FuzzOpen(f *testing.F) {
	k, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		f.Fatal(err)
	}
	// Sealing is random, and fuzzing uses several processes, so the one valid value is fixed.
	sealed, err := hex.DecodeString("01b059e898802a4a298d0a1fe79be0312b9d9dddf6168371eb785bf38886786676e434fa3c8fa7776296ba114140ba")
	if err != nil {
		f.Fatal(err)
	}
	if plain, err := k.Open(sealed, nil); err != nil || string(plain) != "secret" {
		f.Fatalf("the good value opens as %q, %v", plain, err)
	}
	f.Add(sealed, "")
	f.Add([]byte{1}, "a")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, b []byte, where string) {
		if plain, err := k.Open(b, []byte(where)); err == nil && (!bytes.Equal(b, sealed) || where != "") {
			t.Errorf("opened forged %x as %q", b, plain)
		}
	})
}
