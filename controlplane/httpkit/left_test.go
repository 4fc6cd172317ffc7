package httpkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// unsent is an answer that nobody reads.
type unsent struct {
	*httptest.ResponseRecorder
	err error
}

// Write implements http.ResponseWriter.
func (u unsent) Write([]byte) (int, error) { return 0, u.err }

// TestClientsThatLeaveAreNoFailures: anybody can leave before the answer or in its midst, and so
// must not fill the log with errors. A failure that is none of that is still one, also if the
// client has left.
func TestClientsThatLeaveAreNoFailures(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	broken := errors.New("broken pipe")
	for name, test := range map[string]struct {
		ctx    context.Context
		unsent error
		cause  error
		want   string
	}{
		"left before the answer":           {gone, nil, fmt.Errorf("read: %w", context.Canceled), "INFO"},
		"left in its midst":                {t.Context(), broken, fmt.Errorf("write: %w", broken), "INFO"},
		"left, and something else failed":  {gone, broken, errors.New("the disk is full"), "ERROR"},
		"something was given up, not that": {t.Context(), nil, context.Canceled, "ERROR"},
	} {
		var log bytes.Buffer
		h := Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			EntryOf(r.Context()).Cause = test.cause
			WriteMessage(w, http.StatusServiceUnavailable, "x")
		}), slog.New(slog.NewTextHandler(&log, nil)))
		var w http.ResponseWriter = httptest.NewRecorder()
		if test.unsent != nil {
			w = unsent{httptest.NewRecorder(), test.unsent}
		}
		h.ServeHTTP(w, httptest.NewRequestWithContext(test.ctx, http.MethodGet, "/", nil))
		if !strings.Contains(log.String(), "level="+test.want+" ") {
			t.Errorf("%s: %s", name, log.String())
		}
		err := Unawaited(httptest.NewRequestWithContext(test.ctx, http.MethodGet, "/", nil), test.cause)
		if fault.Is(err, fault.Unavailable) != (name == "left before the answer") || !errors.Is(err, test.cause) {
			t.Errorf("%s: answered as %v", name, err)
		}
	}
}
