package oauth

import (
	"context"
	"sync"
)

// said remembers what was logged, so that it is logged once. Its memory is bounded; what it
// has forgotten is logged again.
type said struct {
	mu   sync.Mutex
	what generations
}

// legacy logs the use of a grant that RFC 9700 advises against (sections 2.1.2 and 2.4), once
// for each plugin instance and process. The operator who switched the grant on may not know
// which clients still need it.
func (s *Server) legacy(ctx context.Context, t *Request, grant string) {
	key := digestOf(t.Scope + " " + t.Plugin + " " + grant)
	s.warned.mu.Lock()
	_, before := s.warned.what.get(key)
	if !before {
		s.warned.what.set(key, t.Now)
	}
	s.warned.mu.Unlock()
	if !before {
		s.Log.WarnContext(ctx, "a legacy grant is in use: switch it off once no client needs it", "grant", grant, "plugin", t.Plugin, "application", t.Application.Name)
	}
}
