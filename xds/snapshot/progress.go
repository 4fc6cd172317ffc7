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
	// Revision is the revision that was refused.
	Revision uint64 `json:"-"`
}

// Progress is how far one revision has come. Only nodes with an open stream
// count, each by its newest one: a proxy that is away holds nobody up and gets
// the latest state when it returns.
type Progress struct {
	Revision uint64
	// Published is the newest revision whose sets are in place.
	Published uint64
	// Acknowledged and Waiting are node ids in order. A node that refuses
	// something is in neither, once it has answered everything.
	Acknowledged []string
	Waiting      []string
	Rejected     []Rejection
}

// Done reports whether nothing is outstanding.
func (p Progress) Done() bool { return p.Published >= p.Revision && len(p.Waiting) == 0 }

// Progress returns the account of a revision.
func (s *Store) Progress(revision uint64) Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := Progress{Revision: revision, Published: s.published}
	for id, n := range s.nodes {
		if !n.held || len(n.subs) == 0 {
			continue
		}
		sub, rejects := n.newest(), false
		waiting := n.waiting(revision)
		for _, r := range sub.rejected {
			if r.Revision <= revision {
				rejects = true
				p.Rejected = append(p.Rejected, r)
			}
		}
		switch {
		case waiting:
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

func compareRejections(a, b Rejection) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Error, b.Error))
}

// Wait returns the account once the revision is published and no node waits, or
// when the context ends, whichever is first. It is woken by events.
func (s *Store) Wait(ctx context.Context, revision uint64) Progress {
	w := s.await(interest{revision: revision})
	defer func() { s.forget(w) }()
	for {
		select {
		case <-w.over:
		case <-ctx.Done():
			return s.Progress(revision)
		}
		// A node may have come between the end of the wait and this account.
		if p := s.Progress(revision); p.Done() {
			return p
		}
		s.forget(w)
		w = s.await(interest{revision: revision})
	}
}

// Moved returns a channel that is closed at the next event that may change any
// progress. Take it before reading Progress.
func (s *Store) Moved() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}
