package snapshot

import "slices"

// Account is how far one node is, by its newest stream.
type Account struct {
	// Desired is the newest revision that the node's scope shows.
	Desired uint64
	// Acknowledged is the newest revision of which the proxy holds everything: it has
	// answered all of it and refused nothing. It is 0 if it has answered nothing yet.
	Acknowledged uint64
	// Waiting says that it has not answered everything that it should have.
	Waiting bool
	// Rejected is what it refuses at present, in order.
	Rejected []Rejection
}

// Account returns the account of a node; false if it has no open stream, or nothing
// was published for it.
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

// before is the revision before another one.
func before(revision uint64) uint64 { return max(revision, 1) - 1 }

// Shown is the newest revision that a scope shows; false if it is not known.
func (s *Store) Shown(scope string) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.scopes[scope]
	if sc == nil {
		return 0, false
	}
	return sc.newest(), true
}

// Moves counts the events that may have changed any progress, with the channel of
// [Store.Moved] that the next one closes.
func (s *Store) Moves() (uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moves, s.moved
}
