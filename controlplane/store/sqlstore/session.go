package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// session is one connection with its prepared statements. One goroutine uses it at a time.
// All SQL texts are constants of this package, which bounds the number of statements.
//
// Statements never get the caller's context: cancelling would cost a goroutine for each
// statement, and each statement is short.
type session struct {
	conn  connection
	stmts map[string]*sql.Stmt
}

// connection has the methods of [sql.Conn] that a session needs.
type connection interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	Close() error
}

func newSession(ctx context.Context, db *sql.DB) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return &session{conn: conn, stmts: make(map[string]*sql.Stmt)}, nil
}

func (s *session) close() error {
	var errs []error
	for _, st := range s.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

func (s *session) prepared(query string) (*sql.Stmt, error) {
	if st, ok := s.stmts[query]; ok {
		return st, nil
	}
	st, err := s.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("preparing %q: %w", query, err)
	}
	s.stmts[query] = st
	return st, nil
}

func (s *session) exec(query string, args ...any) (sql.Result, error) {
	st, err := s.prepared(query)
	if err != nil {
		return nil, err
	}
	res, err := st.ExecContext(context.Background(), args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	return res, nil
}

// control runs a statement without preparing it: transactions and pragmas.
func (s *session) control(query string) error {
	if _, err := s.conn.ExecContext(context.Background(), query); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// row scans one row and reports whether there is one.
func (s *session) row(query string, args []any, dest ...any) (bool, error) {
	st, err := s.prepared(query)
	if err != nil {
		return false, err
	}
	err = st.QueryRowContext(context.Background(), args...).Scan(dest...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", query, err)
	}
	return true, nil
}

// each scans every row into dest and calls visit after each.
func (s *session) each(query string, args []any, visit func() error, dest ...any) error {
	st, err := s.prepared(query)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(context.Background(), args...)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close() //nolint:errcheck // Err below says what there is to know
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		if err := visit(); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}
