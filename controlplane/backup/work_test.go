package backup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestScheduleLeavesABackupThatIsWritten: a schedule that starts while another process
// writes a backup into its directory leaves that backup's files alone.
func TestScheduleLeavesABackupThatIsWritten(t *testing.T) {
	s, log := scheduled(t)
	if err := os.MkdirAll(s.Directory, 0o700); err != nil {
		t.Fatal(err)
	}
	manual, err := newWork(s.Directory)
	if err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(manual.path, MainPart)
	if err := os.WriteFile(part, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { runFor(t, s, time.Minute) })
	if _, err := os.Stat(part); err != nil || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("%v, %s", err, log)
	}
	if err := manual.remove(); err != nil {
		t.Error(err)
	}
	if got := names(t, s.Directory); !slices.Equal(got, []string{"meshgate-20000101T000000Z.backup"}) {
		t.Errorf("%q", got)
	}
}

// TestWorkAgainstRemoval: the owner of a directory keeps it, even if others look for
// leftovers at the moment when it is made.
func TestWorkAgainstRemoval(t *testing.T) {
	dir := t.TempDir()
	stop := make(chan struct{})
	var removers sync.WaitGroup
	for range 2 {
		removers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := removeLeft(dir); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 300 {
		w, err := newWork(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.path, MainPart), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.remove(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	removers.Wait()
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestWriteWithoutLinks: backups work on a file system without links as well, and replace no
// file.
func TestWriteWithoutLinks(t *testing.T) {
	s, _ := scheduled(t)
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.EOPNOTSUPP, syscall.ENOSYS} {
		link = func(string, string) error { return &os.LinkError{Op: "link", Err: errno} }
		t.Cleanup(func() { link = os.Link })
		path := filepath.Join(t.TempDir(), "b")
		if _, err := Write(t.Context(), s.Source, path); err != nil {
			t.Fatal(errno, err)
		}
		if _, err := Unpack(path, t.TempDir()); err != nil {
			t.Error(errno, err)
		}
		if got := names(t, filepath.Dir(path)); len(got) != 1 {
			t.Errorf("%q", got)
		}
	}
	// Another file appears while the backup is assembled.
	path := filepath.Join(t.TempDir(), "b")
	link = func(_, path string) error {
		return errors.Join(os.WriteFile(path, []byte("theirs"), 0o600), syscall.EPERM)
	}
	if _, err := Write(t.Context(), s.Source, path); err == nil || !strings.Contains(err.Error(), "never written over") {
		t.Errorf("over a file: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "theirs" {
		t.Errorf("%s, %v", text, err)
	}
}
