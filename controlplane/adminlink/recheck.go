package adminlink

import (
	"context"
	"maps"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// The pauses between attempts to recheck what could not be judged.
const (
	firstRecheck = 100 * time.Millisecond
	lastRecheck  = 5 * time.Second
)

// Recheck authenticates links again with the tokens they came with and ends those
// whose token no longer counts: the links of the named nodes, or all if none is
// named. A failure that says nothing of the token ends nobody; the server tries
// again until it is judged, because nobody else will.
func (s *Server) Recheck(ctx context.Context, nodes ...string) {
	for node, l := range s.linksOf(nodes) {
		s.recheck(ctx, node, l)
	}
}

func (s *Server) linksOf(nodes []string) map[string]*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(nodes) == 0 {
		return maps.Clone(s.links)
	}
	out := map[string]*link{}
	for _, node := range nodes {
		if l := s.links[node]; l != nil {
			out[node] = l
		}
	}
	return out
}

// recheck judges a link, later if it cannot be judged now.
func (s *Server) recheck(ctx context.Context, node string, l *link) {
	err := s.judge(ctx, node, l)
	if err == nil || ctx.Err() != nil {
		return
	}
	s.o.Log.Warn("an admin link could not be rechecked and is tried again", "node", node, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.links[node] != l {
		return
	}
	s.unjudged[l] = node
	if !s.retrying {
		s.retrying = true
		s.owned.Go(s.retry)
	}
}

// judge ends a link whose token no longer counts. The error says why it could not
// be judged.
func (s *Server) judge(ctx context.Context, node string, l *link) error {
	_, err := s.o.Auth.Authenticate(ctx, node, l.token)
	switch fault.CodeOf(err) {
	case fault.Denied, fault.Forbidden, fault.NotFound:
		l.close(errRevoked)
	default:
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unjudged, l)
	return nil
}

// retry rechecks what could not be judged until nothing of it is left.
func (s *Server) retry() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.owned.Go(func() { // a check that hangs holds up no end
		select {
		case <-s.end:
			cancel()
		case <-ctx.Done():
		}
	})
	pause := time.NewTimer(firstRecheck)
	defer pause.Stop()
	for next := 2 * firstRecheck; ; next = min(2*next, lastRecheck) {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		open, failed := s.postponed(), error(nil)
		for l, node := range open {
			if err := s.judge(ctx, node, l); err != nil {
				failed = err
			}
			if ctx.Err() != nil {
				return
			}
		}
		if s.rested() {
			return
		}
		if failed != nil {
			s.o.Log.Warn("admin links could not be rechecked", "links", len(open), "again_in", next.String(), "error", failed)
		}
		pause.Reset(next)
	}
}

// postponed are the links that are still to be judged.
func (s *Server) postponed() map[*link]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.unjudged)
}

// rested ends the retries if nothing is left to judge.
func (s *Server) rested() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retrying = len(s.unjudged) > 0
	return !s.retrying
}
