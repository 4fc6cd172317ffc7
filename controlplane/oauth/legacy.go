package oauth

import "context"

// legacy says in the log, once for each plugin instance and process, that a
// grant was used that RFC 9700 advises against (sections 2.1.2 and 2.4): whoever
// switched it on may not know who still needs it.
func (s *Server) legacy(ctx context.Context, t *Request, grant string) {
	if _, said := s.warned.LoadOrStore(t.Scope+" "+t.Plugin+" "+grant, true); !said {
		s.Log.WarnContext(ctx, "a legacy grant is in use: switch it off once no client needs it", "grant", grant, "plugin", t.Plugin, "application", t.Application.Name)
	}
}
