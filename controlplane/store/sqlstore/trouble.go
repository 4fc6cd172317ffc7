package sqlstore

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	// calm is the time without a failed write after which a successful write ends a trouble.
	// On a disk that is almost full, small writes succeed between large ones that fail.
	calm = time.Second
	// lookSize is the number of bytes that are written to find out why a disk takes no
	// writes.
	lookSize = 64 << 10
)

// troubles holds what the writer knows about its disk. It belongs to its goroutine.
type troubles struct {
	now  store.Trouble
	last time.Time
	// dir is the directory of the database.
	dir string
	// report is told of changes; it may be nil.
	report func(store.Trouble, error)
}

func (t *troubles) set(now store.Trouble, err error) {
	if now != store.NoTrouble {
		t.last = time.Now()
	}
	if now == t.now {
		return
	}
	t.now = now
	if t.report != nil {
		t.report(now, err)
	}
}

// well notes that a write succeeded.
func (t *troubles) well() {
	if t.now != store.NoTrouble && time.Since(t.last) >= calm {
		t.set(store.NoTrouble, nil)
	}
}

// met notes why a write failed, and returns the error for its caller. It returns nil if the
// disk is not the cause.
func (t *troubles) met(err error) error {
	what := diagnose(err, func() error { return look(t.dir) })
	if what == store.NoTrouble {
		return nil
	}
	t.set(what, err)
	return what.Fault(err)
}

// diagnose distinguishes a full disk from a broken one. SQLite has a code for a full disk
// only if its own write fails. Other operations that need space report an I/O error, and then
// look tries a write of its own.
func diagnose(err error, look func() error) store.Trouble {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return store.NoTrouble
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return store.DiskFull
	case sqlite3.SQLITE_READONLY:
		return store.ReadOnly
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return refusal(look())
	}
	return store.NoTrouble
}

// refusal returns the trouble for the error of a write.
func refusal(err error) store.Trouble {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return store.DiskFull
	case errors.Is(err, syscall.EROFS):
		return store.ReadOnly
	}
	return store.IOError
}

// look writes a file and removes it.
func look(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(make([]byte, lookSize))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// failed returns the error of a transaction that was not committed.
func (w *writer) failed(err error) error {
	if known := w.troubles.met(err); known != nil {
		return known
	}
	return fault.Wrap(fault.Internal, err, "the transaction could not be committed")
}

// Probe implements [store.Prober]. It does not wait for a disk that hangs longer than until
// ctx ends.
func (s *sqlite) Probe(ctx context.Context) error {
	r := newRequest(ctx, model.Credential)
	r.probe = true
	if err := s.writer.enqueue(r); err != nil {
		return err
	}
	select {
	case out := <-r.reply:
		return out.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
