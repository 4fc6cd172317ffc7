package adminlink

import "time"

const (
	// shortLife is the life from which on the end of a link is logged individually. A node
	// has one link at a time, so its agent causes at most one such line in this time.
	shortLife = time.Second
	// briefPause is the shortest pause between two lines about links that end sooner.
	briefPause = 10 * time.Second
)

// brief counts links that end right after they were opened. Server.mu guards it.
type brief struct {
	logged   time.Time
	unlogged int
}

// ended logs why a link has ended. Links that end at once are logged together, because an
// agent that opens one after the other would fill the log.
func (s *Server) ended(l *link, lived time.Duration, err error) {
	if lived >= shortLife {
		s.o.Log.Info("admin link ended", "node", l.node, "error", err)
		return
	}
	s.mu.Lock()
	s.brief.unlogged++
	links := s.brief.unlogged
	silent := time.Since(s.brief.logged) < briefPause
	if !silent {
		s.brief = brief{logged: time.Now()}
	}
	s.mu.Unlock()
	if !silent {
		s.o.Log.Info("admin link ended", "node", l.node, "error", err, "lived", lived.String(), "links", links)
	}
}
