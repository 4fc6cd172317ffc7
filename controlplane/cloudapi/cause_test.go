package cloudapi

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// TestAnswersHaveNoCauses: whatever fails, the caller reads no cause.
func TestAnswersHaveNoCauses(t *testing.T) {
	f := setup(t)
	cause := errors.New("dial tcp 10.1.2.3:443")
	for _, code := range []fault.Code{
		fault.Internal, fault.Invalid, fault.NotFound, fault.Exists, fault.Conflict, fault.Unique, fault.Dangling, fault.Referenced,
		fault.Forbidden, fault.Denied, fault.Unsupported, fault.Unavailable, fault.TooLarge, fault.Unstored,
	} {
		var log bytes.Buffer
		rec := httptest.NewRecorder()
		httpkit.Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.api.fail(w, r, fault.Wrap(code, cause, "a sentence"), nil)
		}), slog.New(slog.NewTextHandler(&log, nil))).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v2/portals", nil))
		if strings.Contains(rec.Body.String(), "10.1.2.3") {
			t.Errorf("%s: %s", code, rec.Body)
		}
		if strings.Contains(log.String(), "10.1.2.3") != (rec.Code >= http.StatusInternalServerError) {
			t.Errorf("%s: %d, and the log has %s", code, rec.Code, &log)
		}
	}
}
