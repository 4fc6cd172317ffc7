package sqlstore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// smallDisk mounts a file system of a few megabytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small file system cannot be mounted here, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill uses up space of a disk, at most the given number of bytes. free gives it back.
func fill(t *testing.T, dir string, most int) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for taken := 0; taken < most && err == nil; taken += 4 << 10 {
		_, err = f.Write(make([]byte, 4<<10))
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// reports collects the troubles that a store has reported.
type reports struct {
	mu   sync.Mutex
	list []store.Trouble
}

func (r *reports) add(t store.Trouble, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, t)
}

func (r *reports) all() []store.Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]store.Trouble{}, r.list...)
}

func openReported(t *testing.T, dir string) (*sqlite, *reports) {
	t.Helper()
	r := &reports{}
	s, err := Open(t.Context(), Options{
		Path: filepath.Join(dir, "meshgate.db"), Kinds: []*model.Kind{notes, whispers}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Report: r.add,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*sqlite), r
}

// TestDiskFull fills a real disk under load. Every write succeeds or returns Unstored,
// nothing is half written, reads go on, and one trouble is reported. When there is space
// again, a probe or the next write finds out.
func TestDiskFull(t *testing.T) {
	for name, probe := range map[string]bool{"a probe": true, "the next write": false} {
		t.Run(name+" ends it", func(t *testing.T) {
			dir := smallDisk(t, "4m")
			synctest.Test(t, func(t *testing.T) { diskFull(t, dir, probe) }) // no time passes while somebody writes, however slowly
		})
	}
}

// overload writes more than fits on a disk, and returns how many writes were made.
func overload(t *testing.T, s *sqlite) int {
	t.Helper()
	var made, refused atomic.Int64
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for i := range 200 {
				switch err := write(t, s, fmt.Sprintf("%d-%d", worker, i), 10<<10); {
				case err == nil:
					made.Add(1)
				case fault.Is(err, fault.Unstored):
					refused.Add(1)
				default:
					t.Errorf("on a full disk: %v", err)
				}
			}
		})
	}
	load.Wait()
	if made.Load() == 0 || refused.Load() == 0 {
		t.Fatalf("%d writes were made, %d refused", made.Load(), refused.Load())
	}
	return int(made.Load())
}

func diskFull(t *testing.T, dir string, probe bool) {
	s, told := openReported(t, dir)
	free := fill(t, dir, 2<<20)
	made := overload(t, s)
	if n := s.count(t); n != made || s.Revision() != uint64(n) {
		t.Errorf("%d notes at revision %d, of %d that were answered", n, s.Revision(), made)
	}
	if diff := cmp.Diff([]store.Trouble{store.DiskFull}, told.all()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	err := s.Probe(t.Context())
	for err == nil { // there may be room left in the log
		err = s.Probe(t.Context())
	}
	if !fault.Is(err, fault.Unstored) {
		t.Errorf("a probe of a full disk: %v", err)
	}
	free()
	deadline, tick := time.After(2*patience), time.NewTicker(calm/10)
	defer tick.Stop()
	for i := 0; len(told.all()) < 2; i++ {
		select { // the system does not report free space
		case <-tick.C:
		case <-deadline:
			t.Fatalf("told: %q", told.all())
		}
		if probe {
			err = s.Probe(t.Context())
		} else {
			err = write(t, s, fmt.Sprint("after", i), 1<<10)
		}
		if err != nil {
			t.Fatalf("with space again: %v", err)
		}
	}
	if diff := cmp.Diff([]store.Trouble{store.DiskFull, store.NoTrouble}, told.all()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if err := write(t, s, "large", 1<<20); err != nil {
		t.Error(err)
	}
}

// TestOpenOnFullDisk: a store that cannot be created reports why.
func TestOpenOnFullDisk(t *testing.T) {
	dir := smallDisk(t, "1m")
	defer fill(t, dir, 1<<20)()
	_, err := Open(t.Context(), Options{Path: filepath.Join(dir, "meshgate.db"), Kinds: []*model.Kind{notes}, Log: slog.New(slog.DiscardHandler)})
	if !fault.Is(err, fault.Unstored) {
		t.Errorf("got %v", err)
	}
}

// TestReadOnly: a database that takes no writes is not reported as full.
func TestReadOnly(t *testing.T) { synctest.Test(t, readOnly) }

func readOnly(t *testing.T) {
	s, told := openReported(t, t.TempDir())
	set := func(on string) { // the writer is idle meanwhile
		if err := s.writer.session.control("PRAGMA query_only = " + on); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(t, s, "before", 1); err != nil {
		t.Fatal(err)
	}
	set("ON")
	if err := write(t, s, "a", 1); !fault.Is(err, fault.Unstored) {
		t.Errorf("got %v", err)
	}
	set("OFF")
	deadline, tick := time.After(2*patience), time.NewTicker(calm/10)
	defer tick.Stop()
	for len(told.all()) < 2 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("told: %q", told.all())
		}
		if err := s.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]store.Trouble{store.ReadOnly, store.NoTrouble}, told.all()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestRefusal distinguishes the errors of a disk.
func TestRefusal(t *testing.T) {
	for err, want := range map[error]store.Trouble{
		syscall.ENOSPC: store.DiskFull, syscall.EDQUOT: store.DiskFull, syscall.EROFS: store.ReadOnly, syscall.EIO: store.IOError, nil: store.IOError,
	} {
		wrapped := err
		if err != nil {
			wrapped = &os.PathError{Op: "write", Err: err}
		}
		if got := refusal(wrapped); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
