package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/feed"
)

// status implements [store.Status].
type status struct {
	mu     sync.Mutex
	rows   map[model.Key][]byte
	closed bool
}

// NewStatus returns an empty status store, which ends with the process.
func NewStatus() store.Status { return &status{rows: map[model.Key][]byte{}} }

// begin takes the lock. If there is no error, the caller has to release it.
func (s *status) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return feed.Closed()
	}
	return nil
}

// Put implements [store.Status].
func (s *status) Put(ctx context.Context, rows []store.StatusRow) error {
	if err := store.CheckStatusRows(rows); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, r := range rows {
		s.rows[r.Key] = bytes.Clone(r.Value)
	}
	return nil
}

// Get implements [store.Status].
func (s *status) Get(ctx context.Context, key model.Key) ([]byte, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	v, ok := s.rows[key]
	if !ok {
		return nil, fault.New(fault.NotFound, "there is no %s %s", key.Kind, key.Name)
	}
	return bytes.Clone(v), nil
}

// List implements [store.Status].
func (s *status) List(ctx context.Context, kind, scope string) ([]store.StatusRow, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.StatusRow
	for key, v := range s.rows {
		if key.Kind == kind && (scope == store.AnyScope || key.Scope == scope) {
			out = append(out, store.StatusRow{Key: key, Value: bytes.Clone(v)})
		}
	}
	slices.SortFunc(out, func(a, b store.StatusRow) int {
		return cmp.Or(cmp.Compare(a.Key.Scope, b.Key.Scope), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return out, nil
}

// Delete implements [store.Status].
func (s *status) Delete(ctx context.Context, keys []model.Key) error {
	if err := store.CheckStatusKeys(keys); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, key := range keys {
		delete(s.rows, key)
	}
	return nil
}

// Close implements [store.Status].
func (s *status) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
