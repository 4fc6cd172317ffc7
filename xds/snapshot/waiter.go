package snapshot

// waiter is one call of Wait. It keeps the nodes it waits for, so that an event
// costs one node and not a walk over all of them. Guarded by Store.mu.
type waiter struct {
	revision uint64
	nodes    map[string]struct{}
	over     chan struct{}
	ended    bool
}

func (s *Store) await(revision uint64) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &waiter{revision: revision, nodes: map[string]struct{}{}, over: make(chan struct{})}
	for id, n := range s.nodes {
		if n.waiting(revision) {
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
		if n := s.nodes[id]; n != nil && n.waiting(w.revision) {
			w.nodes[id] = struct{}{}
		} else {
			delete(w.nodes, id)
		}
	}
	if !w.ended && len(w.nodes) == 0 && s.published >= w.revision {
		w.ended = true
		close(w.over)
	}
}

// waiting reports whether a node with an open stream lacks a revision.
func (n *node) waiting(revision uint64) bool {
	if !n.held || len(n.subs) == 0 {
		return false
	}
	sub := n.newest()
	return sub.fresh || n.behind(sub.acked, revision)
}
