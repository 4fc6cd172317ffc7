package cloudapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestClientHasLeft: what ends because nobody waits for it is no error of the server. A client
// who has only said that it sends no more hears the answer.
func TestClientHasLeft(t *testing.T) {
	f := setup(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	rec := httptest.NewRecorder()
	f.api.fail(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v2/portals", nil), fmt.Errorf("read: %w", context.Canceled), nil)
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
