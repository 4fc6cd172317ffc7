package adminlink

import "time"

const (
	// shortLife is how long a link lives whose end is logged by itself. A node has one
	// link at a time, so that its agent makes a line in that time at most.
	shortLife = time.Second
	// briefPause is how often it is said that links end sooner.
	briefPause = 10 * time.Second
)

// brief counts links that end as soon as they came. Server.mu guards it.
type brief struct {
	logged   time.Time
	unlogged int
}

// ended logs why a link has ended. Links that end at once are logged together: an agent
// that opens one after the other would fill the log.
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
