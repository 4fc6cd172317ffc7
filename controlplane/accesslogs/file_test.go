package accesslogs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFileThatCannotBePutAside stops growing at twice its size.
func TestFileThatCannotBePutAside(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a.log.1", "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := newFile("a.log", &Options{Directories: []string{dir}, MaxSize: 10, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	const line = "1234567\n"
	written := 0
	for range 100 {
		if n, err := l.write(t.Context(), []byte(line)); err == nil {
			written += n
		}
	}
	if got := len(content(filepath.Join(dir, "a.log"))); got != written || got != 3*len(line) || l.standing() == nil {
		t.Errorf("it has %d bytes, of %d that were taken, and says %v", got, written, l.standing())
	}
}

// TestTornLineStaysWhole: a line of which a full disk took the beginning is ended in the same file,
// and only then is the file put aside.
func TestTornLineStaysWhole(t *testing.T) {
	dir := t.TempDir()
	l, err := newFile("a.log", &Options{Directories: []string{dir}, MaxSize: 9, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, lines := range []string{"12345678", "9\n", "next\n"} {
		if n, err := l.write(t.Context(), []byte(lines)); n != len(lines) || err != nil {
			t.Fatalf("%q: %d, %v", lines, n, err)
		}
	}
	at := filepath.Join(dir, "a.log")
	if content(at+".1") != "123456789\n" || content(at) != "next\n" {
		t.Errorf("files are %q and %q", content(at+".1"), content(at))
	}
}
