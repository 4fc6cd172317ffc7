package enrol

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

// TestAnswersHaveNoCauses: whatever fails, a node reads no cause. The log has it.
func TestAnswersHaveNoCauses(t *testing.T) {
	s := newMeshServer(t)
	for code := range statuses {
		var log bytes.Buffer
		rec := httptest.NewRecorder()
		httpkit.Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.fail(w, r, fault.Wrap(code, errors.New("dial tcp 10.1.2.3:443"), "a sentence"))
		}), slog.New(slog.NewTextHandler(&log, nil))).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, Path, nil))
		if want := `{"message":"a sentence"}`; rec.Body.String() != want {
			t.Errorf("%s: %s, want %s", code, rec.Body, want)
		}
		if !strings.Contains(log.String(), "10.1.2.3") {
			t.Errorf("%s: the log has %s", code, &log)
		}
	}
}
