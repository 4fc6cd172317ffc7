// Package sqlstore keeps resources in one SQLite file. It is the default store.
//
// One goroutine owns the only writing connection and commits waiting transactions together.
// Every view reads a snapshot on its own connection, so readers and the writer never wait for
// each other. Specs of sealed kinds are encrypted, and unique secret values are stored as
// keyed digests.
//
// Commits of class config are synchronised to disk before Update returns (synchronous=FULL).
// Commits of class credential survive the death of the process, but a power failure may lose
// the last of them (synchronous=NORMAL). A later config commit makes all earlier ones
// durable.
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

// Sealer encrypts specs and digests secret values; package seal implements it.
type Sealer interface {
	// Seal encrypts and binds to the associated data.
	Seal(plain, associated []byte) ([]byte, error)
	// Open fails unless the value comes from Seal with the same key and data.
	Open(sealed, associated []byte) ([]byte, error)
	// Current reports whether a value was sealed with the key that seals now. ID names that
	// key.
	Current(sealed, associated []byte) bool
	ID() string
	// Digest returns a keyed digest of a value; labels separate uses. Digests returns it, and
	// after it the digests by older keys.
	Digest(label, value string) string
	Digests(label, value string) []string
}

// Options of a store.
type Options struct {
	// Path of the database file. It is created with mode 0600.
	Path string
	// Claim, if set, is the claim on it, which is over when the store is closed or cannot be opened.
	Claim *Claim
	// Kinds are all kinds that the store keeps, of class config or credential.
	Kinds []*model.Kind
	// Sealer is required if a kind is sealed or has a secret index.
	Sealer Sealer
	// Log receives errors that no caller sees; required.
	Log *slog.Logger
	// History is how many events are kept for watchers; 0 = 16384.
	History int
	// Now is the clock; nil = time.Now.
	Now func() time.Time
	// Past returns the time before which rows have ended; nil = Now. Rows that have ended are
	// deleted, so a clock that jumps ahead must not end them; see package steady.
	Past func() time.Time
	// Checkpoint is how long a commit may be in the log alone; 0 = 30 s.
	Checkpoint time.Duration
	// Retention of change records; zero values are those of [store.DefaultRetention].
	Retention store.Retention
	// Restored is set if the file comes from a backup. The store then gets a new incarnation.
	Restored bool
	// Report, if set, is told when writing begins to fail, why, and when it works again. It
	// must not use the store.
	Report func(store.Trouble, error)
	// Begin, if set, reads what the last process has left, and writes what must be on disk
	// before any ended row is removed. If it fails, the store does not open. If only its
	// write fails, because the disk takes none, the store opens. Begin is then run again
	// before ended rows are removed, and they stay until it succeeds.
	Begin func(store.Tx) error

	// page is the number of rows that one transaction seals anew; 0 = resealPage.
	page int
}

// ErrKey is the error of Open if the database was written with another key.
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
	if s.lock, err = claim(o.Claim, o.Path); err != nil {
		return err
	}
	if err := create(o.Path); err != nil {
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

// connect opens a pool, which makes connections when they are needed.
func (s *sqlite) connect(path, option string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", Path: abs}
	u.RawQuery = "_busy_timeout=10000&_journal_mode=WAL&" + option
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	s.dbs = append(s.dbs, db)
	return db, nil
}

// View implements [store.Store]. At most eight views run at the same time; a view that opens
// another one may deadlock.
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

// viewError keeps the errors of the context and of a closed store as they are.
func viewError(ctx context.Context, err error) error {
	if ctx.Err() != nil || fault.Is(err, fault.Unavailable) {
		return err
	}
	return fault.Wrap(fault.Internal, err, "the store cannot be read")
}

// Update implements [store.Store]. fn runs on the caller's goroutine, so a panic is the
// caller's, and the transaction is rolled back. Once the commit has begun, Update waits for
// it even if ctx ends.
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

// release closes everything that open has opened.
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
