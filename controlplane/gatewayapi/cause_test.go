package gatewayapi_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestAnswersHaveNoCauses: whatever fails, and before or after the caller is known, it reads no cause.
func TestAnswersHaveNoCauses(t *testing.T) {
	cause := errors.New("dial tcp 10.1.2.3:443")
	for _, code := range []fault.Code{
		fault.Internal, fault.Invalid, fault.NotFound, fault.Exists, fault.Conflict, fault.Unique, fault.Dangling, fault.Referenced,
		fault.Forbidden, fault.Denied, fault.Unsupported, fault.Unavailable, fault.TooLarge, fault.Unstored,
	} {
		err := fault.Wrap(code, cause, "a sentence")
		known := setup(t, nil)
		known.revoker.set(err)
		unknown := setupWith(t, func(o *gatewayapi.Options) {
			o.Identify = func(*http.Request) (model.Actor, error) { return model.Actor{}, err }
		})
		for name, api := range map[string]*gatewayapi.API{"known": known.api, "unknown": unknown.api} {
			var log bytes.Buffer
			r := httptest.NewRequest(http.MethodPost, "/consumers", strings.NewReader("username=bob"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			rec := httptest.NewRecorder()
			httpkit.Observe(api.Handler(), slog.New(slog.NewTextHandler(&log, nil))).ServeHTTP(rec, r)
			if rec.Code < http.StatusBadRequest || strings.Contains(rec.Body.String(), "10.1.2.3") {
				t.Errorf("%s, %s: %d %s", code, name, rec.Code, rec.Body)
			}
			if rec.Code >= http.StatusInternalServerError && code != fault.Unsupported && !strings.Contains(log.String(), "10.1.2.3") {
				t.Errorf("%s, %s: %d, and the log has %s", code, name, rec.Code, &log)
			}
		}
	}
}
