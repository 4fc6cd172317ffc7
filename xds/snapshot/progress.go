package snapshot

import (
	"cmp"
	"context"
	"slices"

	"github.com/meshgate/meshgate/xds/resource"
)

// Rejection is one refusal that still stands: the proxy runs an older version
// of the resources, or none.
type Rejection struct {
	// Name is the node.
	Name string `json:"name"`
	// Error is the proxy's text; for secrets a constant, because the text of a
	// refused secret may hold its private key.
	Error string `json:"error"`
	// Type is the type of the refused response.
	Type resource.TypeURL `json:"-"`
	// Resources are the names in the refused response.
	Resources []string `json:"-"`
	// Revision is the oldest revision that may be part of what was refused.
	Revision uint64 `json:"-"`
}

// Progress is how far one revision has come in some scopes. Only nodes with an
// open stream count, each by its newest one: a proxy that is away holds nobody up
// and gets the latest state when it returns.
type Progress struct {
	Revision uint64
	// Published is the newest revision that all these scopes show, Revision if
	// there are none.
	Published uint64
	// Acknowledged and Waiting are node ids in order. A node that refuses
	// something is in neither, once it has answered everything.
	Acknowledged []string
	Waiting      []string
	Rejected     []Rejection
}

// Done reports whether nothing is outstanding.
func (p Progress) Done() bool { return p.Published >= p.Revision && len(p.Waiting) == 0 }

// Progress returns the account of a revision in the named scopes: without an
// argument in all of them, with an empty list in none.
func (s *Store) Progress(revision uint64, scopes ...string) Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress(interest{revision: revision, scopes: scopes})
}

func (s *Store) progress(in interest) Progress {
	p := Progress{Revision: in.revision, Published: s.shown(in.scopes, s.none(in))}
	for id, n := range s.nodes {
		if !in.concerns(n) {
			continue
		}
		rejects := false
		for _, r := range n.newest().rejected {
			if r.Revision <= in.revision {
				rejects = true
				p.Rejected = append(p.Rejected, r)
			}
		}
		switch {
		case n.waiting(in.revision):
			p.Waiting = append(p.Waiting, id)
		case !rejects:
			p.Acknowledged = append(p.Acknowledged, id)
		}
	}
	slices.Sort(p.Acknowledged)
	slices.Sort(p.Waiting)
	slices.SortFunc(p.Rejected, compareRejections)
	return p
}

// none is what counts as published where no scope is concerned.
func (s *Store) none(in interest) uint64 {
	if in.scopes == nil {
		return 0
	}
	return in.revision
}

// Rejections returns what a node refuses at present, whatever the number of nodes.
func (s *Store) Rejections(id string) []Rejection {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[id]
	if n == nil || !n.held || len(n.subs) == 0 {
		return nil
	}
	out := slices.Clone(n.newest().rejected)
	slices.SortFunc(out, compareRejections)
	return out
}

// Settled returns the nodes of some scopes that WaitNodes would find done now, in no
// particular order: they have a set and an open stream, and have answered all of the
// revision. It is the account of one moment: a node whose stream ends before it is in no
// later one.
func (s *Store) Settled(revision uint64, scopes []string, blocks func(Rejection) bool) []string {
	w := &waiter{interest: interest{revision: revision, scopes: scopes, blocks: blocks, answers: true}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shows(w.scopes, revision) {
		return nil
	}
	var out []string
	for id, n := range s.nodes {
		if w.concerns(n) && !w.waitsFor(s, id) {
			out = append(out, id)
		}
	}
	return out
}

func compareRejections(a, b Rejection) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Error, b.Error))
}

// Wait returns the account once the named scopes, as in Progress, show the revision
// and no node of theirs waits, or when the context ends, whichever is first. It is
// woken by events.
func (s *Store) Wait(ctx context.Context, revision uint64, scopes ...string) Progress {
	in := interest{revision: revision, scopes: scopes, answers: true}
	w := s.await(in)
	defer func() { s.forget(w) }()
	for {
		select {
		case <-w.over:
		case <-ctx.Done():
			return s.Progress(revision, scopes...)
		}
		// A node may have come between the end of the wait and this account.
		if p := s.Progress(revision, scopes...); p.Done() {
			return p
		}
		s.forget(w)
		w = s.await(in)
	}
}

// Moved returns a channel that is closed at the next event that may change any
// progress. Take it before reading Progress.
func (s *Store) Moved() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}
