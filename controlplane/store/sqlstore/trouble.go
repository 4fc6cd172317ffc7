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
	// calm is how long no write may have failed until one that succeeds counts as the
	// end of a trouble: on a disk that is almost full small writes succeed between
	// large ones that do not.
	calm = time.Second
	// lookSize is what is written to find out what a disk does not take.
	lookSize = 64 << 10
)

// troubles is what the writer knows of its disk. It belongs to its goroutine.
type troubles struct {
	now  store.Trouble
	last time.Time
	// dir is where the database is.
	dir string
	// report hears of changes; may be nil.
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

// well notes that something was written.
func (t *troubles) well() {
	if t.now != store.NoTrouble && time.Since(t.last) >= calm {
		t.set(store.NoTrouble, nil)
	}
}

// met notes why nothing was written, and returns the error for whoever asked for it;
// nil if the disk has nothing to do with it.
func (t *troubles) met(err error) error {
	what := diagnose(err, func() error { return look(t.dir) })
	if what == store.NoTrouble {
		return nil
	}
	t.set(what, err)
	return what.Fault(err)
}

// diagnose tells a disk that is full from one that is broken. Only SQLite's own write
// tells the first by its code; whatever else needs space reports an I/O error, and
// then look shows what the disk says to somebody else.
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

// refusal names the trouble of a disk that has refused a write.
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

// failed is the error of a transaction that was not committed.
func (w *writer) failed(err error) error {
	if known := w.troubles.met(err); known != nil {
		return known
	}
	return fault.Wrap(fault.Internal, err, "the transaction could not be committed")
}

// Probe implements [store.Prober]. A disk that stands still is not waited for longer than
// ctx lasts.
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
