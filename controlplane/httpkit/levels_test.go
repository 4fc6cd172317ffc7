package httpkit

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLevelsOfRequests: routine requests do not bury important ones in the log, and a
// mistake of a client does not count as a failure of the server.
func TestLevelsOfRequests(t *testing.T) {
	for _, test := range []struct {
		pattern string
		status  int
		cause   error
		panics  bool
		want    string
	}{
		{pattern: "/ready", status: 200, want: "DEBUG"},
		{pattern: "/live", status: 200, want: "DEBUG"},
		{pattern: "/metrics", status: 200, want: "DEBUG"},
		{pattern: "/metrics", status: 503, want: "DEBUG"},
		{pattern: "/metrics", status: 405, want: "DEBUG"},
		{pattern: "/metrics", status: 500, cause: errors.New("broken"), want: "ERROR"},
		{pattern: "/ready", status: 503, want: "INFO"},
		{pattern: "/services", status: 200, want: "INFO"},
		{pattern: "/services", status: 400, cause: errors.New("mistyped"), want: "INFO"},
		{pattern: "/services", status: 500, cause: errors.New("broken"), want: "ERROR"},
		{pattern: "/ready", status: 200, cause: errors.New("broken"), want: "ERROR"},
		{pattern: "/services", status: 400, panics: true, want: "ERROR"},
	} {
		var log bytes.Buffer
		h := Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e := EntryOf(r.Context())
			e.Pattern, e.Cause = test.pattern, test.cause
			w.WriteHeader(test.status)
			if test.panics {
				panic("broken")
			}
		}), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		func() {
			defer func() { _ = recover() }() // a half-written answer is aborted
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}()
		if !strings.Contains(log.String(), "level="+test.want+" ") {
			t.Errorf("%+v: %s", test, log.String())
		}
	}
}
