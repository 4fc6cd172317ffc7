package snapshot

import (
	"slices"
	"time"
)

// refuser is a node that refuses something. It outlives the streams of the node: a stream
// that breaks corrects nothing, and neither does a new one before it has answered. Guarded by
// Store.mu.
type refuser struct {
	scope string
	// rejected is what it refuses on its newest stream, before what it refused on former
	// ones, until the newest has answered.
	rejected, before []Rejection
	// left is when the last stream of the node ended; zero while one is open.
	left time.Time
}

// refuses reports whether a refusal of the revision, or of an older one, is picked.
func (in *interest) refuses(r *refuser) bool {
	picked := func(r Rejection) bool { return r.Revision <= in.revision && in.blocks(r) }
	return in.blocks != nil && (slices.ContainsFunc(r.rejected, picked) || slices.ContainsFunc(r.before, picked))
}

// blocked reports whether a node with an open stream refuses what is picked, on this stream
// or on a former one.
func (w *waiter) blocked(s *Store, id string) bool {
	r := s.refusers[id]
	return r != nil && r.left.IsZero() && (w.scopes == nil || slices.Contains(w.scopes, r.scope)) && w.refuses(r)
}

// told keeps what the newest stream of a node refuses.
func (s *Store) told(sub *Subscription) {
	r := s.refusers[sub.id]
	if sub.node.newest() != sub || r == nil && len(sub.rejected) == 0 {
		return
	}
	if r == nil {
		r = &refuser{}
		s.refusers[sub.id] = r
	}
	r.scope, r.rejected = sub.node.scope, sub.rejected
	if !sub.fresh {
		r.before = nil
	}
	if len(r.rejected)+len(r.before) == 0 {
		delete(s.refusers, sub.id)
	}
}

// merged returns newer refusals, with the older ones of other types.
func merged(older, newer []Rejection) []Rejection {
	out := slices.Clone(newer)
	for _, r := range older {
		if !slices.ContainsFunc(newer, func(n Rejection) bool { return n.Type == r.Type }) {
			out = append(out, r)
		}
	}
	return out
}

// came and leaves follow whether a refuser has a stream. The node must answer a new one
// before what it refused is forgotten.
func (s *Store) came(id string) {
	if r := s.refusers[id]; r != nil {
		r.before, r.rejected, r.left = merged(r.before, r.rejected), nil, time.Time{}
	}
}

func (s *Store) leaves(id string) {
	if r := s.refusers[id]; r != nil {
		r.left = time.Now()
	}
}

// Refusers returns the nodes of some scopes with an open stream that refuse what blocks picks of
// the revision or an older one, in order. A node that refused it on a former stream, and has
// not answered since, is one of them. left is when the last of those left that have no
// stream; zero if there are none.
func (s *Store) Refusers(revision uint64, scopes []string, blocks func(Rejection) bool) (open []string, left time.Time) {
	in := interest{revision: revision, blocks: blocks}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.refusers {
		switch {
		case !slices.Contains(scopes, r.scope) || !in.refuses(r):
		case r.left.IsZero():
			open = append(open, id)
		case r.left.After(left):
			left = r.left
		}
	}
	slices.Sort(open)
	return open, left
}

// Forget forgets what a node refused that is gone for good.
func (s *Store) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refusers, id)
	s.move(id)
}
