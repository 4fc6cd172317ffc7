package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/feed"
)

// statusVersion is the user_version of a status file.
const statusVersion = 1

const statusSchema = `CREATE TABLE status (
	kind  TEXT NOT NULL,
	scope TEXT NOT NULL,
	name  TEXT NOT NULL,
	value BLOB NOT NULL,
	PRIMARY KEY (kind, scope, name)
) STRICT, WITHOUT ROWID`

// status implements [store.Status] in its own file, so that its writes do not wait for those
// of the configuration, or delay them. Calls are few and short, so one connection serves them
// one at a time.
type status struct {
	lock *os.File
	db   *sql.DB

	mu      sync.Mutex
	session *session
}

// OpenStatus opens or creates a status store at a path, with mode 0600. The caller must close
// it. It fails if another process has the file open, or if a newer version wrote it.
func OpenStatus(ctx context.Context, path string) (store.Status, error) {
	return openStatus(ctx, path, nil)
}

func openStatus(ctx context.Context, path string, c *Claim) (store.Status, error) {
	s := &status{}
	if err := s.open(ctx, path, c); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the status store %s: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *status) open(ctx context.Context, path string, c *Claim) (err error) {
	if path, err = real(path); err != nil {
		return err
	}
	if s.lock, err = claim(c, path); err != nil {
		return err
	}
	if err := create(path); err != nil {
		return err
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_busy_timeout=10000&_journal_mode=WAL&_txlock=immediate"}
	if s.db, err = sql.Open("sqlite", u.String()); err != nil {
		return err
	}
	if s.session, err = newSession(ctx, s.db); err != nil {
		return err
	}
	for _, pragma := range [...]string{"PRAGMA journal_size_limit = 16777216", "PRAGMA synchronous = NORMAL"} {
		if err := s.session.control(pragma); err != nil {
			return err
		}
	}
	return s.transact(s.migrate)
}

func (s *status) migrate() error {
	var version int
	if _, err := s.session.row("PRAGMA user_version", nil, &version); err != nil {
		return err
	}
	switch {
	case version == statusVersion:
		return nil
	case version > statusVersion:
		return fmt.Errorf("it has schema version %d, this program knows %d: it was written by a newer one", version, statusVersion)
	}
	if err := s.session.control(statusSchema); err != nil {
		return err
	}
	return s.session.control(fmt.Sprintf("PRAGMA user_version = %d", statusVersion))
}

// transact runs fn in one transaction. The caller holds mu.
func (s *status) transact(fn func() error) error {
	if err := s.session.control("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return errors.Join(err, s.session.control("ROLLBACK"))
	}
	if err := s.session.control("COMMIT"); err != nil {
		return errors.Join(err, s.session.control("ROLLBACK"))
	}
	return nil
}

// with runs fn with exclusive use of the connection.
func (s *status) with(ctx context.Context, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return feed.Closed()
	}
	err := fn()
	if _, coded := errors.AsType[*fault.Error](err); err != nil && !coded {
		return fault.Wrap(fault.Internal, err, "the status store failed")
	}
	return err
}

// Put implements [store.Status].
func (s *status) Put(ctx context.Context, rows []store.StatusRow) error {
	if err := store.CheckStatusRows(rows); err != nil {
		return err
	}
	return s.with(ctx, func() error {
		return s.transact(func() error {
			for _, r := range rows {
				value := r.Value
				if value == nil {
					value = []byte{} // nil would be NULL
				}
				if _, err := s.session.exec(`INSERT INTO status (kind, scope, name, value) VALUES (?, ?, ?, ?)
					ON CONFLICT DO UPDATE SET value = excluded.value`, r.Key.Kind, r.Key.Scope, r.Key.Name, value); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Get implements [store.Status].
func (s *status) Get(ctx context.Context, key model.Key) (value []byte, err error) {
	err = s.with(ctx, func() error {
		found, err := s.session.row(`SELECT value FROM status WHERE kind = ? AND scope = ? AND name = ?`,
			[]any{key.Kind, key.Scope, key.Name}, &value)
		if err == nil && !found {
			return fault.New(fault.NotFound, "there is no %s %s", key.Kind, key.Name)
		}
		return err
	})
	return value, err
}

// List implements [store.Status].
func (s *status) List(ctx context.Context, kind, scope string) (out []store.StatusRow, err error) {
	query, args := `SELECT scope, name, value FROM status WHERE kind = ? AND scope = ? ORDER BY scope, name`, []any{kind, scope}
	if scope == store.AnyScope {
		query, args = `SELECT scope, name, value FROM status WHERE kind = ? ORDER BY scope, name`, args[:1]
	}
	err = s.with(ctx, func() error {
		var at, name string
		var value []byte
		return s.session.each(query, args, func() error {
			out = append(out, store.StatusRow{Key: model.Key{Kind: kind, Scope: at, Name: name}, Value: value})
			return nil
		}, &at, &name, &value)
	})
	return out, err
}

// Delete implements [store.Status].
func (s *status) Delete(ctx context.Context, keys []model.Key) error {
	if err := store.CheckStatusKeys(keys); err != nil {
		return err
	}
	return s.with(ctx, func() error {
		return s.transact(func() error {
			for _, key := range keys {
				if _, err := s.session.exec(`DELETE FROM status WHERE kind = ? AND scope = ? AND name = ?`, key.Kind, key.Scope, key.Name); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Close implements [store.Status].
func (s *status) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.session != nil {
		_, err := s.session.checkpoint()
		errs = append(errs, err, s.session.close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	s.session, s.db, s.lock = nil, nil, nil
	return errors.Join(errs...)
}
