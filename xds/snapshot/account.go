package snapshot

import "slices"

// Account describes how far one node is, by its newest stream.
type Account struct {
	// Desired is the newest revision that the node's scope shows.
	Desired uint64
	// Acknowledged is the newest revision of which the proxy holds everything: it has answered
	// all of it and refused nothing. It is 0 if the proxy has answered nothing yet.
	Acknowledged uint64
	// Waiting says that the proxy has not answered everything yet.
	Waiting bool
	// Rejected is what the proxy currently refuses, in order.
	Rejected []Rejection
}

// Account returns the account of a node. It returns false if the node has no open stream, or
// if nothing was published for it.
func (s *Store) Account(id string) (Account, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[id]
	if n == nil || !n.held || len(n.subs) == 0 {
		return Account{}, false
	}
	a, sub := Account{Waiting: n.waiting(Newest)}, n.newest()
	if sc := s.scopes[n.scope]; sc != nil {
		a.Desired = sc.newest()
	}
	a.Rejected = slices.Clone(sub.rejected)
	slices.SortFunc(a.Rejected, compareRejections)
	if sub.fresh {
		return a, true
	}
	a.Acknowledged = min(a.Desired, before(n.oldest(sub.acked)))
	for _, r := range a.Rejected {
		a.Acknowledged = min(a.Acknowledged, before(r.Revision))
	}
	return a, true
}

// before returns the revision before another one.
func before(revision uint64) uint64 { return max(revision, 1) - 1 }

// Shown returns the newest revision that a scope shows. It returns false for an unknown scope.
func (s *Store) Shown(scope string) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.scopes[scope]
	if sc == nil {
		return 0, false
	}
	return sc.newest(), true
}

// Moves returns the number of events so far that may have changed any progress, and the
// channel of [Store.Moved] that the next one closes.
func (s *Store) Moves() (uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moves, s.moved
}
