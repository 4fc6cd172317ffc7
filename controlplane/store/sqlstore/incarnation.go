package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
)

// incarnate gives a database an id that distinguishes it from all others with the same past.
// It makes a new id if there is none, or if the database comes from a backup.
func incarnate(s *session, restored bool) error {
	var have string
	found, err := s.row(`SELECT value FROM meta WHERE name = 'incarnation'`, nil, &have)
	if err != nil || (found && !restored) {
		return err
	}
	_, err = s.exec(`INSERT INTO meta (name, value) VALUES ('incarnation', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, rand.Text())
	return err
}

// About describes a database.
type About struct {
	// Incarnation distinguishes stores with the same past; see [Options.Restored]. It is
	// empty if only versions without incarnations have opened the database.
	Incarnation string
	// Revision is the newest one.
	Revision uint64
}

// Describe reads the description of a database. Another process may have the database open.
// The path must be that of a store, not of a status store.
func Describe(ctx context.Context, path string) (About, error) {
	var a About
	err := beside(ctx, path, func(s *session) error {
		if _, err := s.row(`SELECT value FROM meta WHERE name = 'incarnation'`, nil, &a.Incarnation); err != nil {
			return err
		}
		revision, err := readRevision(s)
		a.Revision = revision
		return err
	})
	return a, err
}

// VerifyKey returns [ErrKey] if a database was written with a key that the sealer lacks.
// Another process may have the database open.
func VerifyKey(ctx context.Context, path string, sealer Sealer) error {
	return beside(ctx, path, func(s *session) error {
		_, err := checks(s, sealer)
		return err
	})
}

// Snapshot writes the state of a database of either kind into an empty file. Another process
// may read and write the database meanwhile. The file holds every commit that was
// acknowledged before the call.
func Snapshot(ctx context.Context, path, into string) error {
	abs, err := filepath.Abs(into)
	if err != nil {
		return err
	}
	return beside(ctx, path, func(s *session) error {
		_, err := s.exec("VACUUM INTO ?", abs)
		return err
	})
}

// beside runs fn on a connection that does not take the lock of the store, and that does not
// create a missing database.
func beside(ctx context.Context, path string, fn func(*session) error) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: "mode=rw&_busy_timeout=10000"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return err
	}
	s, err := newSession(ctx, db)
	if err != nil {
		return errors.Join(fmt.Errorf("reading the database %s: %w", path, err), db.Close())
	}
	if err := fn(s); err != nil {
		err = fmt.Errorf("reading the database %s: %w", path, err)
		return errors.Join(err, s.close(), db.Close())
	}
	return errors.Join(s.close(), db.Close())
}
