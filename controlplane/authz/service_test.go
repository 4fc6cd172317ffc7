package authz

import (
	"log/slog"
	"strings"
	"testing"
)

// TestServiceAtAPort: a service that cannot listen is not open.
func TestServiceAtAPort(t *testing.T) {
	s := New(slog.New(slog.DiscardHandler))
	err := s.Open(t.Context(), "127.0.0.1:0", "settings.json", "")
	if err == nil || !strings.HasPrefix(err.Error(), `the authorization service cannot listen: "127.0.0.1:0" must be unix://`) || s.server.Load() != nil {
		t.Error(err)
	}
}
