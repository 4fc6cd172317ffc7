package cloudapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/turns"
)

// TestTooManyAsk: whoever is too many is told when to come again, and nobody else is.
func TestTooManyAsk(t *testing.T) {
	for want, err := range map[string]error{
		"1": fault.Wrap(fault.Unavailable, turns.ErrFull, "others are comparing credentials"),
		"":  fault.New(fault.Unavailable, "nobody knows when"),
	} {
		rec := httptest.NewRecorder()
		(&API{}).fail(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, base, nil), err, nil)
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != want {
			t.Errorf("%v: %d %v", err, rec.Code, rec.Header())
		}
	}
}
