package tokencache

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRemovalIsOnDisk: a removal without a sync of the directory is not done. It is not done
// either when it is tried again and finds no file: after a power failure the file would be
// back.
func TestRemovalIsOnDisk(t *testing.T) {
	dir := runDirectory(t.TempDir())
	writeFile(t, filepath.Join(string(dir), "x"), nil)
	withoutFiles(t, func() {
		for _, attempt := range []string{"the first", "the second"} {
			if dir.remove("x") == nil {
				t.Errorf("%s removal is reported as done", attempt)
			}
		}
	})
	if _, err := os.Stat(filepath.Join(string(dir), "x")); !os.IsNotExist(err) {
		t.Errorf("the file was not removed: the test says nothing (%v)", err)
	}
	if err := dir.remove("x"); err != nil {
		t.Error(err)
	}
}

// withoutFiles runs fn while the process cannot open any file.
func withoutFiles(t *testing.T, fn func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	none := old
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
	}()
	fn()
}
