package authz

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestServiceThatCannotOpen: a service does not listen on a port, and one without its settings
// leaves no socket behind.
func TestServiceThatCannotOpen(t *testing.T) {
	dir, err := os.MkdirTemp("", "authz")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for listen, want := range map[string]string{
		"127.0.0.1:0": "the authorization service cannot listen: \"127.0.0.1:0\" must be unix://",
		contract.UnixPrefix + filepath.Join(dir, "s"): "no such file",
	} {
		s := New(slog.New(slog.DiscardHandler))
		if err := s.Open(t.Context(), listen, filepath.Join(dir, "settings.json"), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", listen, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
