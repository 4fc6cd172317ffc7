package assembly

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/controlplane/authz"
	"github.com/meshgate/meshgate/filter/contract"
)

// TestAuthzIsReadyWhileItIsReached: the service is not ready without its socket, although it
// lives.
func TestAuthzIsReadyWhileItIsReached(t *testing.T) {
	dir, err := os.MkdirTemp("", "authz") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	settings := filepath.Join(dir, "settings.json")
	if err := os.WriteFile(settings, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := authz.New(slog.New(slog.DiscardHandler))
	status := authzStatus(s)
	says := func(path string) int {
		w := httptest.NewRecorder()
		status.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w.Code
	}
	if code := says("/ready"); code != http.StatusServiceUnavailable {
		t.Errorf("before it is open: %d", code)
	}
	socket := filepath.Join(dir, "s")
	if err := s.Open(t.Context(), contract.UnixPrefix+socket, settings, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, stop := context.WithCancel(context.Background())
		stop()
		if err := s.Serve(ended); err != nil {
			t.Error(err)
		}
	})
	if code := says("/ready"); code != http.StatusOK {
		t.Errorf("open: %d", code)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if ready, live := says("/ready"), says("/live"); ready != http.StatusServiceUnavailable || live != http.StatusOK {
		t.Errorf("its socket is gone: ready %d, live %d", ready, live)
	}
}
