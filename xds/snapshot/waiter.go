package snapshot

import (
	"context"
	"slices"
)

// interest is what a call of Wait or WaitNodes waits for. Its function is called
// under Store.mu.
type interest struct {
	revision uint64
	scopes   []string             // nil for all
	blocks   func(Rejection) bool // nil for none
	// answers is false where nodes that have not answered are not waited for.
	answers bool
}

// waiter is one call of Wait or WaitNodes. It keeps the nodes it waits for, so
// that an event costs one node and not a walk over all of them. Guarded by
// Store.mu.
type waiter struct {
	interest
	nodes map[string]struct{}
	over  chan struct{}
	ended bool
}

// WaitNodes returns once some scopes show the revision and every node of them, among
// those that have a set and an open stream, has answered all of it, with the
// refusals of the revision or an older one that still stand among these nodes,
// ordered by node. Refusals that blocks picks are waited for: the node counts as
// waiting until they are corrected; nil picks none. A stream that is new corrects none before
// it has answered. If the context ends first, its
// error is returned with the refusals of that moment.
//
// An event costs one node, whatever their number. The function is called under the
// store's lock: it must be fast and must not call the store.
func (s *Store) WaitNodes(ctx context.Context, revision uint64, scopes []string, blocks func(Rejection) bool) ([]Rejection, error) {
	return s.waitFor(ctx, interest{revision, scopes, blocks, true})
}

// WaitRefusals is like WaitNodes, but a node that has not answered is not waited for:
// whoever has a place among the nodes may never do so.
func (s *Store) WaitRefusals(ctx context.Context, revision uint64, scopes []string, blocks func(Rejection) bool) ([]Rejection, error) {
	return s.waitFor(ctx, interest{revision, scopes, blocks, false})
}

func (s *Store) waitFor(ctx context.Context, in interest) ([]Rejection, error) {
	for {
		w := s.await(in)
		select {
		case <-w.over:
		case <-ctx.Done():
		}
		rejected, done := s.account(w)
		if done || ctx.Err() != nil {
			if done {
				return rejected, nil
			}
			return rejected, ctx.Err()
		}
	}
}

// account ends a wait. It is not done if a node has come since the wait was over.
func (s *Store) account(w *waiter) (rejected []Rejection, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, w)
	done = s.shows(w.scopes, w.revision) && !s.lacking(w)
	for _, n := range s.nodes {
		if !w.concerns(n) {
			continue
		}
		for _, r := range n.newest().rejected {
			if r.Revision <= w.revision {
				rejected = append(rejected, r)
			}
		}
	}
	slices.SortFunc(rejected, compareRejections)
	return rejected, done
}

func (s *Store) await(in interest) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &waiter{interest: in, nodes: map[string]struct{}{}, over: make(chan struct{})}
	for id := range s.nodes {
		if w.waitsFor(s, id) {
			w.nodes[id] = struct{}{}
		}
	}
	s.waiters[w] = struct{}{}
	w.judge(s)
	return w
}

func (s *Store) forget(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, w)
}

// judge looks at nodes again and ends the wait when none is left.
func (w *waiter) judge(s *Store, ids ...string) {
	for _, id := range ids {
		if w.waitsFor(s, id) {
			w.nodes[id] = struct{}{}
		} else {
			delete(w.nodes, id)
		}
	}
	if !w.ended && len(w.nodes) == 0 && s.shows(w.scopes, w.revision) {
		w.ended = true
		close(w.over)
	}
}

// concerns reports whether a node counts: it has a set, a stream, and is of a scope
// that is asked for.
func (in *interest) concerns(n *node) bool {
	return n.held && len(n.subs) > 0 && (in.scopes == nil || slices.Contains(in.scopes, n.scope))
}

// waitsFor reports whether a node is waited for.
func (w *waiter) waitsFor(s *Store, id string) bool {
	n := s.nodes[id]
	return n != nil && (w.concerns(n) && w.answers && n.waiting(w.revision) || w.blocked(s, id))
}

// lacking reports whether any node is waited for.
func (s *Store) lacking(w *waiter) bool {
	for id := range s.nodes {
		if w.waitsFor(s, id) {
			return true
		}
	}
	return false
}

// waiting reports whether a node with an open stream lacks a revision.
func (n *node) waiting(revision uint64) bool {
	if !n.held || len(n.subs) == 0 {
		return false
	}
	sub := n.newest()
	return sub.fresh || n.behind(sub.acked, revision)
}
