package httpkit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestCallersLearnNoCauses: whoever is not identified reads the sentence of the error at most. Its cause
// may name addresses that nobody outside should know. It is in the log if the mistake is not the caller's.
func TestCallersLearnNoCauses(t *testing.T) {
	cause := errors.New("dial tcp 10.1.2.3:443")
	for _, test := range []struct {
		err    error
		status int
		says   string
		logged bool
	}{
		{fault.Wrap(fault.Unavailable, cause, "ask again"), 503, `{"message":"ask again"}`, true},
		{fmt.Errorf("dial tcp 10.1.2.3:443: %w", fault.New(fault.Unavailable, "ask again")), 503, `{"message":"ask again"}`, true},
		{fault.Wrap(fault.Invalid, cause, "it is wrong"), 400, `{"message":"it is wrong"}`, false},
		{fault.Violated([]fault.Violation{{Path: "a", Message: "is wrong"}}), 400, `{"message":"the input is not valid: a: is wrong"}`, false},
		{fault.Wrap(fault.Denied, cause, "no"), 401, `{"message":"` + textNoToken + `"}`, false},
		{cause, 500, `{"message":"` + TextInternal + `"}`, true},
	} {
		var log bytes.Buffer
		h := Identified(func(*http.Request) (model.Actor, error) { return model.Actor{}, test.err }, RefuseMessage, http.NotFoundHandler())
		rec := httptest.NewRecorder()
		Observe(h, slog.New(slog.NewTextHandler(&log, nil))).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
		if rec.Code != test.status || rec.Body.String() != test.says {
			t.Errorf("%v: %d %s, want %d %s", test.err, rec.Code, rec.Body, test.status, test.says)
		}
		if strings.Contains(log.String(), "10.1.2.3") != test.logged {
			t.Errorf("%v: the log has %s", test.err, &log)
		}
	}
}
