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

// incarnate gives a database the number by which it is told from every other one
// with the same past: a new one if it has none, or comes from a backup.
func incarnate(s *session, restored bool) error {
	var have string
	found, err := s.row(`SELECT value FROM meta WHERE name = 'incarnation'`, nil, &have)
	if err != nil || (found && !restored) {
		return err
	}
	_, err = s.exec(`INSERT INTO meta (name, value) VALUES ('incarnation', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, rand.Text())
	return err
}

// About is what a database says of itself.
type About struct {
	// Incarnation tells stores with the same past apart; see [Options.Restored]. It is
	// empty if no version that knows of incarnations has opened the database.
	Incarnation string
	// Revision is the newest one.
	Revision uint64
}

// Describe reads what a database says of itself, while another process may have it
// open. The path must be of a store, not of a status store.
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

// VerifyKey returns [ErrKey] if a database was written with a key that the sealer lacks, while another
// process may have it open.
func VerifyKey(ctx context.Context, path string, sealer Sealer) error {
	return beside(ctx, path, func(s *session) error {
		_, err := checks(s, sealer)
		return err
	})
}

// Snapshot writes the state of a database of either kind into an empty file, while
// another process may read and write it: every commit that was acknowledged before is
// in it.
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

// beside runs fn on a connection that takes no lock of the store, and creates nothing
// where there is no database.
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
