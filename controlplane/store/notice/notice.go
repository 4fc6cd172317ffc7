// Package notice tells who wants to know of the commits of a store, whoever made them and whether they
// announce anything or not.
//
// The change feed is for what others must not miss: each commit in it has a revision, a place in the
// history on disk, and wakes up everybody who follows the feed. What happens thousands of times in a
// second and concerns one part of this process only must not cost all others that. A commit that is told
// here costs a call. In return it is told only to this process, and only while it runs: who listens looks
// at the store when it begins.
package notice

import (
	"context"
	"sync"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Store is a store that tells of its commits. It is safe for concurrent use.
type Store struct {
	store.Store

	mu        sync.RWMutex
	listeners map[int]func(store.Commit)
	next      int
}

// New returns a store that tells of the commits that are made through it.
func New(s store.Store) *Store { return &Store{Store: s, listeners: map[int]func(store.Commit){}} }

// Listen has a function called after each commit, by who made it: it must return at once and must not
// use the store. The returned function ends that.
func (s *Store) Listen(told func(store.Commit)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.next
	s.next++
	s.listeners[id] = told
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, id)
	}
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	c, err := s.Store.Update(ctx, class, fn)
	if err == nil {
		s.mu.RLock()
		defer s.mu.RUnlock()
		for _, told := range s.listeners {
			told(c)
		}
	}
	return c, err
}
