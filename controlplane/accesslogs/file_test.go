package accesslogs

import (
	"path/filepath"
	"testing"
)

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
