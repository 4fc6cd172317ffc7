package snapshot

import "github.com/meshgate/meshgate/xds/resource"

// Subscription is the view that one stream has of its node. Two streams of one node are normal
// while a proxy reconnects; each has its own account.
type Subscription struct {
	store *Store
	id    string
	node  *node
	wake  chan struct{}
	// number orders the streams of a node by age.
	number uint64

	// The following fields are guarded by store.mu.
	acked    uint64 // version of the set
	fresh    bool   // nothing is confirmed yet, not even an empty set
	rejected []Rejection
	closed   bool
}

// State is one consistent view of a node.
type State struct {
	Set *resource.Set
	// Revision is the newest revision that the node's scope showed when the set was read.
	Revision uint64
	// Since is the oldest revision that may be part of what the stream had not confirmed when
	// the set was read. It is 0 if the stream had confirmed nothing.
	Since uint64
	// Version counts the changes of this node's own set that the state includes.
	Version uint64
}

// Subscribe registers a stream. Its wake channel is ready at once, so that a loop over the
// channel handles the first set like all later ones. The caller closes the subscription.
func (s *Store) Subscribe(id string) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.node(id)
	s.opened++
	sub := &Subscription{store: s, id: id, node: n, number: s.opened, wake: make(chan struct{}, 1), fresh: true}
	n.subs[sub] = struct{}{}
	s.came(id)
	sub.signal()
	s.move(id)
	return sub
}

// Wake returns a channel that is readable when the set may have changed since the last State.
// Signals coalesce.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// State returns the current state of the node.
func (s *Subscription) State() State {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	st := State{Set: s.node.set, Version: s.node.version}
	if sc := s.store.scopes[s.node.scope]; sc != nil {
		st.Revision = sc.published
	}
	if !s.fresh {
		st.Since = min(st.Revision, s.node.oldest(s.acked))
	}
	return st
}

// Confirm records that everything in the given state was sent and answered. Refusals are
// recorded by Reject. It confirms the changes that the state includes and no later ones, and
// reports whether that was news.
func (s *Subscription) Confirm(st State) (moved bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.closed || !s.fresh && s.acked >= st.Version {
		return false
	}
	s.acked, s.fresh = max(s.acked, st.Version), false
	s.store.told(s)
	s.store.move(s.id)
	return true
}

// Reject replaces what this stream's proxy currently refuses; nil clears it.
func (s *Subscription) Reject(rs []Rejection) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.closed || (len(rs) == 0 && len(s.rejected) == 0) {
		return
	}
	for i := range rs {
		rs[i].Name = s.id
	}
	s.rejected = rs
	s.store.told(s)
	s.store.move(s.id)
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	delete(s.node.subs, s)
	if len(s.node.subs) == 0 {
		s.store.leaves(s.id)
		if !s.node.held {
			delete(s.store.nodes, s.id)
		}
	}
	s.store.move(s.id)
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
