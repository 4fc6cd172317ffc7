package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRing: keys are added and removed, and an older key opens what it has sealed until it is
// removed.
func TestRing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	first, err := Make(path, "")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := first.Seal([]byte("hunter2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := Read(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, some := ring.Forgotten(); some {
		t.Error("there is something to forget")
	}
	for i, forget := range []bool{false, true} {
		if err := Write(path, ring.Rotated(forget)); err != nil {
			t.Fatal(err)
		}
		if ring, err = Read(path, ""); err != nil {
			t.Fatal(err)
		}
		keys, err := ring.Keys()
		if err != nil || len(keys.IDs()) != i+2 || keys.ID() == first.ID() || ring.Forgets(0) || ring.Forgets(1) != forget {
			t.Fatalf("%v, %v", keys.IDs(), err)
		}
		if plain, err := keys.Open(sealed, nil); err != nil || string(plain) != "hunter2" || keys.Current(sealed, nil) {
			t.Errorf("%q, %v", plain, err)
		}
		if d := keys.Digests("l", "v"); len(d) != i+2 || d[0] != keys.Digest("l", "v") || d[i+1] != first.Digest("l", "v") {
			t.Errorf("digests %v", d)
		}
	}
	ring, some := ring.Forgotten()
	keys, err := ring.Keys()
	if err != nil || !some || len(keys.IDs()) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	if _, err := keys.Open(sealed, nil); !errors.Is(err, ErrOpen) {
		t.Errorf("a forgotten key opens: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got := fmt.Sprintf("%v %+v %#v", ring, ring, ring); got != "[redacted] [redacted] [redacted]" {
		t.Error("a ring shows its keys")
	}
}

// TestRingText: a file and a setting hold keys in the same form, and other texts are refused.
func TestRingText(t *testing.T) {
	one, two := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, RootSize)), base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{2}, RootSize))
	for text, want := range map[string]string{
		one:                                  one + "\n",
		" " + one + " ,\n\n" + two + "\n":    one + "\n" + two + "\n",
		one + "\nforget " + two:              one + "\nforget " + two + "\n",
		one + "\nforget  " + two + "\r\n":    one + "\nforget " + two + "\n",
		"forget " + one:                      "the first key seals",
		one + two:                            "not valid base64",
		one + "\n" + two[:20]:                "the key has 15 bytes",
		"\n":                                 "the key has 0 bytes",
		strings.Repeat(one+"\n", maxRoots+1): "more than 32",
	} {
		r, err := parse(text)
		switch {
		case err == nil && r.Text() != want:
			t.Errorf("%q became another ring", text)
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && (strings.Contains(err.Error(), one[:8]) || strings.Contains(err.Error(), two[:8])) {
			t.Errorf("the error shows a key: %v", err)
		}
	}
}

// TestWriteBreaksOff: wherever the replacement of a key file breaks off, the old or the new
// file is there, complete, and nothing else is lost.
func TestWriteBreaksOff(t *testing.T) {
	broken := errors.New("broken off")
	for _, at := range []string{"written", "synchronised", "placed", "never"} {
		path := filepath.Join(t.TempDir(), "key")
		if _, err := Make(path, ""); err != nil {
			t.Fatal(err)
		}
		old, err := Read(path, "")
		if err != nil {
			t.Fatal(err)
		}
		next := old.Rotated(false)
		err = write(path, next, func(step string) error {
			if step == at {
				return broken
			}
			return nil
		})
		if (at == "never") != (err == nil) {
			t.Errorf("%s: %v", at, err)
		}
		now, err := Read(path, "")
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		want := old.Text()
		if at == "placed" || at == "never" {
			want = next.Text()
		}
		if now.Text() != want {
			t.Errorf("%s: another file", at)
		}
		if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
			t.Errorf("%s: left %v, %v", at, list, err)
		}
	}
}

// TestWriteLeavesLinks: a symbolic link is not replaced, because it belongs to the one who
// provides the file.
func TestWriteLeavesLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if _, err := Make(path+".real", ""); err != nil {
		t.Fatal(err)
	}
	ring, err := Read(path+".real", "")
	if err == nil {
		err = os.Symlink(path+".real", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(path, ring.Rotated(false)); err == nil || !strings.Contains(err.Error(), "a link") {
		t.Errorf("%v", err)
	}
}
