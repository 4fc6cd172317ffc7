package census

import (
	"context"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Search says which resources are looked for, and which of them are shown.
type Search struct {
	// Kind is one that the census lists; see [Lists].
	Kind *model.Kind
	// Meshes are searched in their order.
	Meshes []string
	// Part must occur in the name.
	Part string
	// Known demands that something is known about the proxy of a dataplane.
	Known bool
	// Accepts, unless it is nil, says which traits are wanted. It is asked once about those that
	// resources have in common, and nobody waits for it.
	Accepts func(*Traits) bool
	// Limit of those behind Skip are shown.
	Skip, Limit int
}

// Found are the results of a search, in the order of their meshes and then by name.
type Found struct {
	Page  []model.Key
	Total int
	// Unread says why rows cannot be read of which it is unknown whether they are wanted.
	Unread []error
}

// Find searches the resources of a kind as they are after everything that had happened when it was
// called. The error is that of [Census.Now], with which a context that has ended asks for what is known
// without waiting, and Unavailable for a kind that is not counted.
func (c *Census) Find(ctx context.Context, s Search) (*Found, error) {
	if _, _, err := c.Now(ctx); err != nil {
		return nil, err
	}
	of := (*c.listed.Load())[s.Kind]
	if of == nil {
		return nil, fault.New(fault.Unavailable, "resources of kind %s are not counted", s.Kind.Name)
	}
	in := searching{Search: s, judged: map[*Traits]bool{}}
	for i, blocks := range of.read(s.Meshes) {
		for _, b := range blocks {
			in.block(s.Meshes[i], b)
		}
	}
	return &in.Found, nil
}

type searching struct {
	Search
	Found
	judged map[*Traits]bool
}

// block adds what is found in a block. Nothing but counts is looked at if the page is elsewhere.
func (s *searching) block(meshName string, b *block) {
	if s.Part != "" && !strings.Contains(b.joined(), s.Part) {
		return
	}
	if n, all := s.matches(b); all && s.Part == "" && (n == 0 || s.Total+n <= s.Skip || len(s.Page) == s.Limit) {
		s.Total += n
		return
	}
	for _, l := range b.rows {
		s.row(meshName, l)
	}
}

// judges reports whether more than a name decides.
func (s *searching) judges() bool { return s.Known || s.Accepts != nil }

// matches counts the wanted rows of a block, whatever their names are. all says that there are no
// others whose errors are to be told.
func (s *searching) matches(b *block) (n int, all bool) {
	if !s.judges() {
		return len(b.rows), true
	}
	readable := 0
	for _, h := range b.having {
		readable += h.n
		switch {
		case !s.accepts(h.traits):
		case s.Known:
			n += h.known
		default:
			n += h.n
		}
	}
	return n, readable == len(b.rows)
}

func (s *searching) row(meshName string, l *Listed) {
	switch {
	case !strings.Contains(l.Name, s.Part):
	case l.Unread != nil && s.judges(): // without a demand it has its place
		s.Unread = append(s.Unread, l.Unread)
	case s.Known && !l.Known || !s.accepts(l.Traits):
	default:
		if s.Total++; s.Total > s.Skip && len(s.Page) < s.Limit {
			s.Page = append(s.Page, model.Key{Kind: s.Kind.Name, Scope: meshName, Name: l.Name})
		}
	}
}

func (s *searching) accepts(t *Traits) bool {
	if s.Accepts == nil {
		return true
	}
	is, done := s.judged[t]
	if !done {
		is = s.Accepts(t)
		s.judged[t] = is
	}
	return is
}
