package meshapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestNothingIsCounted: whoever asks while nothing can be counted learns that, and soon, however long
// he would wait himself.
func TestNothingIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer func() { _ = s.Close() }()
		a := &API{Options{Store: s, Kinds: testKinds(), Census: census.New(census.Options{Store: s, Kinds: testKinds()})}} // it never runs
		for _, e := range a.insights() {
			if e.Method != http.MethodGet {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			began, rec := time.Now(), httptest.NewRecorder()
			e.Handler.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, e.Pattern, nil))
			cancel()
			if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "the resources are not counted yet") {
				t.Errorf("%s: %d %s", e.Pattern, rec.Code, rec.Body)
			}
			if waited := time.Since(began); waited != countingPatience {
				t.Errorf("%s: an answer after %v", e.Pattern, waited)
			}
		}
	})
}
