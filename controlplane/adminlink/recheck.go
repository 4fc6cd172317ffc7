package adminlink

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Recheck authenticates links again with the tokens they came with, and ends those whose
// token is no longer valid. It checks the links of the named nodes, or all links if no node
// is named. A failure that says nothing about the token does not end the link. The server
// repeats such a check until it succeeds, because no other event would trigger it.
func (s *Server) Recheck(ctx context.Context, nodes ...string) {
	for _, l := range s.linksOf(nodes) {
		s.recheck(ctx, l)
	}
}

func (s *Server) linksOf(nodes []string) []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(nodes) == 0 {
		return slices.Collect(maps.Values(s.links))
	}
	var out []*link
	for _, node := range nodes {
		if l := s.links[node]; l != nil {
			out = append(out, l)
		}
	}
	return out
}

// recheck judges a link now, or later if it cannot be judged now.
func (s *Server) recheck(ctx context.Context, l *link) {
	err := s.judge(ctx, l)
	if err == nil || ctx.Err() != nil {
		return
	}
	s.o.Log.Warn("an admin link could not be rechecked and is tried again", "node", l.node, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links[l.node] == l {
		s.unjudged.Add(l)
	}
}

// judge ends a link whose token is no longer valid. The error says why this could not be
// judged.
func (s *Server) judge(ctx context.Context, l *link) error {
	_, err := s.o.Auth.Authenticate(ctx, l.node, l.token)
	switch fault.CodeOf(err) {
	case fault.Denied, fault.Forbidden, fault.NotFound:
		l.close(errRevoked)
		return nil
	default:
		return err
	}
}

func (s *Server) notRechecked(left int, again time.Duration, err error) {
	s.o.Log.Warn("admin links could not be rechecked", "links", left, "again_in", again.String(), "error", err)
}
