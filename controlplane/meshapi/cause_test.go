package meshapi

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
	cause := errors.New("dial tcp 10.1.2.3:443")
	for code := range rows {
		var log bytes.Buffer
		rec := httptest.NewRecorder()
		httpkit.Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fail(w, r, opList, fault.Wrap(code, cause, "a sentence"))
		}), slog.New(slog.NewTextHandler(&log, nil))).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/meshes", nil))
		if strings.Contains(rec.Body.String(), "10.1.2.3") {
			t.Errorf("%s: %s", code, rec.Body)
		}
		if strings.Contains(log.String(), "10.1.2.3") != (rec.Code >= http.StatusInternalServerError) {
			t.Errorf("%s: %d, and the log has %s", code, rec.Code, &log)
		}
	}
}
