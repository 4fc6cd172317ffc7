package agent

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRedirectsAreNotFollowed: the control plane cannot redirect an agent, because other
// services on its machine trust local clients.
func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	s := httptest.NewTLSServer(http.RedirectHandler(other.URL+"/quitquitquit", http.StatusTemporaryRedirect))
	defer s.Close()
	a := &Agent{tls: s.Client().Transport.(*http.Transport).TLSClientConfig, Options: Options{Log: slog.New(slog.DiscardHandler)}}
	a.conditions = newConditions(a.Log)
	resp, err := a.client().Post(s.URL, "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if asked || resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("asked %t, status %d", asked, resp.StatusCode)
	}
}

// TestOnlyATokenReplacesAToken: an answer that is not a token is not stored, because the
// node could never ask again with it.
func TestOnlyATokenReplacesAToken(t *testing.T) {
	for name, sidecar := range map[string]*Sidecar{"gateway": nil, "sidecar": {Mesh: "m"}} {
		file := filepath.Join(t.TempDir(), "token")
		token := tokenAt(time.Now(), time.Hour)
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		n := &renewal{
			Agent: &Agent{Options: Options{Sidecar: sidecar, TokenFile: file, Log: slog.New(slog.DiscardHandler)}}, now: time.Now,
			renew: func(context.Context, string) (string, error) { return "<html>no token</html>", nil },
		}
		if err := n.replaceToken(t.Context(), token); err == nil {
			t.Errorf("%s: no error", name)
		}
		if raw, err := os.ReadFile(file); err != nil || string(raw) != token {
			t.Errorf("%s: the file holds %q, %v", name, raw, err)
		}
	}
}
