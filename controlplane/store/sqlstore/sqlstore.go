// Package sqlstore keeps resources in one SQLite file. It is the default store.
//
// One goroutine owns the only writing connection and commits waiting
// transactions together; every view reads a snapshot on a connection of its
// own, so readers and the writer never wait for each other. Specs of sealed
// kinds are encrypted, unique secret values are stored as keyed digests.
//
// Commits of class config are synchronised to disk before Update returns
// (synchronous=FULL); commits of class credential survive the death of the
// process, and a power failure may lose the last of them, in order
// (synchronous=NORMAL). A later config commit makes all before it durable.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
	"github.com/meshgate/meshgate/controlplane/store/internal/feed"
)

// Sealer encrypts specs and digests secret values; package seal has one.
type Sealer interface {
	// Seal encrypts and binds to the associated data.
	Seal(plain, associated []byte) ([]byte, error)
	// Open fails for anything but the result of Seal with the same key and data.
	Open(sealed, associated []byte) ([]byte, error)
	// Current reports whether something was sealed by the key that seals now, and ID
	// names that key.
	Current(sealed, associated []byte) bool
	ID() string
	// Digest is a keyed digest of a value; labels separate uses. Digests has those by
	// older keys, too, after it.
	Digest(label, value string) string
	Digests(label, value string) []string
}

// Options of a store.
type Options struct {
	// Path of the database file. It is created with mode 0600.
	Path string
	// Kinds are all kinds that the store keeps, of class config or credential.
	Kinds []*model.Kind
	// Sealer is required if a kind is sealed or has a secret index.
	Sealer Sealer
	// Log takes what no caller hears of; required.
	Log *slog.Logger
	// History is how many events are kept for watchers; 0 = 16384.
	History int
	// Now is the clock; nil = time.Now.
	Now func() time.Time
	// Past is up to when rows have ended; nil = Now. A row that is over is gone for good,
	// so a clock that jumps ahead must not say so; see package steady.
	Past func() time.Time
	// Checkpoint is how long a commit may stand in the log alone; 0 = 30 s.
	Checkpoint time.Duration
	// Retention of change records; zero values are those of [store.DefaultRetention].
	Retention store.Retention
	// Restored says that the file was taken from a backup: it becomes another
	// incarnation of the store.
	Restored bool
	// Report, if set, hears when writing begins to fail, why, and when it works again.
	// It must not use the store.
	Report func(store.Trouble, error)
	// Begin, if set, reads what the last process has left, and writes what has to be on
	// the disk before any row is removed because it has ended. If it fails the store does
	// not open. If only its write fails, because the disk takes none, the store opens, and
	// Begin is run again when rows have ended: they stay until it has succeeded.
	Begin func(store.Tx) error

	// page is how many rows are sealed anew in one transaction; 0 = resealPage.
	page int
}

// ErrKey is the error of an Open with another key than the database has.
var ErrKey = errors.New("the encryption key is not the one it was written with")

// sqlite implements [store.Store].
type sqlite struct {
	past    func() time.Time
	codec   *codec
	feed    *feed.Feed
	readers *readers
	writer  *writer
	dbs     []*sql.DB
	lock    *os.File
	closing chan struct{}
	closed  chan struct{}
	once    chan struct{}
}

// Open opens or creates a store. Its Close must be called. It fails if another
// process has the file open, if the file was written by a newer version, or if
// the key is not the one that the file was written with.
func Open(ctx context.Context, o Options) (store.Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Past == nil {
		o.Past = o.Now
	}
	if o.Checkpoint == 0 {
		o.Checkpoint = checkpointAfter
	}
	c, err := newCodec(o)
	if err != nil {
		return nil, err
	}
	s := &sqlite{past: o.Past, codec: c, closing: make(chan struct{}), closed: make(chan struct{}), once: make(chan struct{}, 1)}
	if err := s.open(ctx, o); err != nil {
		if what := diagnose(err, func() error { return look(filepath.Dir(o.Path)) }); what != store.NoTrouble {
			err = what.Fault(err)
		}
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", o.Path, err), s.release())
	}
	go s.writer.loop()
	return s, nil
}

func (s *sqlite) open(ctx context.Context, o Options) (err error) {
	if o.Path, err = real(o.Path); err != nil {
		return err
	}
	if s.lock, err = lockFile(o.Path); err != nil {
		return err
	}
	alone, err := withoutLog(o.Path)
	if err != nil {
		return err
	}
	write, err := s.connect(o.Path, "_txlock=immediate")
	if err != nil {
		return err
	}
	session, err := newSession(ctx, write)
	if err != nil {
		return err
	}
	if err := prepare(session, s.codec, o, alone); err != nil {
		return errors.Join(err, session.close())
	}
	s.writer, err = newWriter(session, s.codec, o, s.closing)
	if err != nil {
		return errors.Join(err, session.close())
	}
	s.feed = s.writer.feed
	read, err := s.connect(o.Path, "_query_only=1")
	if err != nil {
		return errors.Join(err, session.close())
	}
	s.readers = newReaders(read, s.closing)
	if err := s.writer.begin(); err != nil {
		s.readers.close()
		return errors.Join(err, session.close())
	}
	return nil
}

// connect opens a pool that makes connections when they are asked for.
func (s *sqlite) connect(path, option string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", Path: abs}
	u.RawQuery = "_busy_timeout=10000&_foreign_keys=1&_journal_mode=WAL&" + option
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	s.dbs = append(s.dbs, db)
	return db, nil
}

// View implements [store.Store]. At most eight views run at the same time; one
// that opens another may wait for itself.
func (s *sqlite) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	session, err := s.readers.acquire(ctx)
	if err != nil {
		return viewError(ctx, err)
	}
	if err := session.control("BEGIN"); err != nil {
		s.readers.drop(session)
		return viewError(ctx, err)
	}
	defer func() {
		if err := session.control("ROLLBACK"); err != nil {
			s.readers.drop(session)
			return
		}
		s.readers.release(session)
	}()
	// The first read fixes the snapshot.
	rev, err := readRevision(session)
	if err != nil {
		return viewError(ctx, err)
	}
	r := engine.NewReader(&rows{session: session, codec: s.codec, revision: rev}, s.codec.kinds, s.past())
	defer r.End()
	return fn(r)
}

// viewError keeps the errors of the context and of closing as they are.
func viewError(ctx context.Context, err error) error {
	if ctx.Err() != nil || fault.Is(err, fault.Unavailable) {
		return err
	}
	return fault.Wrap(fault.Internal, err, "the store cannot be read")
}

// Update implements [store.Store]. fn runs on the caller's goroutine, so a
// panic is the caller's; its transaction is then rolled back. Once it has
// begun, the commit is waited for even if ctx ends.
func (s *sqlite) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if err := engine.CheckClass(class); err != nil {
		return store.Commit{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Commit{}, err
	}
	return s.writer.submit(ctx, class, fn)
}

// Watch implements [store.Store].
func (s *sqlite) Watch(ctx context.Context, after uint64) iter.Seq2[[]store.Event, error] {
	return s.feed.Watch(ctx, after)
}

// Revision implements [store.Store].
func (s *sqlite) Revision() uint64 { return s.feed.Revision() }

// Close implements [store.Store]. It waits for running transactions and views.
func (s *sqlite) Close() error {
	select {
	case s.once <- struct{}{}:
	default:
		<-s.closed
		return nil
	}
	defer close(s.closed)
	close(s.closing)
	<-s.writer.done
	s.feed.Close()
	s.readers.close()
	s.writer.leave()
	return errors.Join(s.writer.session.close(), s.release())
}

// release closes what open may have opened.
func (s *sqlite) release() error {
	var errs []error
	for _, db := range s.dbs {
		errs = append(errs, db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
