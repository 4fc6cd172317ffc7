package oauth

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestNothingSecretIsLogged lets requests succeed, fail, be replayed and break,
// and then looks for what they carried.
func TestNothingSecretIsLogged(t *testing.T) {
	cfg := strict()
	cfg.RefreshTokenGrace = 0
	w := newWorld(t, cfg)
	var log bytes.Buffer
	w.server.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	code := w.newCode()
	exchange := "grant_type=authorization_code&" + asApp + "&code_verifier=" + verifier + "&code=" + code
	_, first := w.post("token", exchange)
	access, refresh := first["access_token"].(string), first["refresh_token"].(string)
	w.post("token", "grant_type=refresh_token&"+asApp+"&refresh_token="+refresh)
	w.post("token", "grant_type=refresh_token&"+asApp+"&refresh_token="+refresh)
	w.post("token", exchange)
	w.post("introspect", asApp+"&token="+access)
	w.server.Writer = failing{w.db}
	w.ask("POST", "/oauth2/token", form, "grant_type=client_credentials&"+asApp, nil)
	w.ask("POST", "/oauth2/revoke", form, asApp+"&token="+access, nil)
	if !strings.Contains(log.String(), "used again") || !strings.Contains(log.String(), "died") {
		t.Errorf("replays and failures are not logged:\n%s", &log)
	}
	for _, secret := range []string{code, access, refresh, verifier, "client_secret", "pk&"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is logged:\n%s", secret, &log)
		}
	}
}

// TestAnswersAreNobodyElses: no answer may be kept, read by other pages, or tell
// where a browser came from.
func TestAnswersAreNobodyElses(t *testing.T) {
	w := newWorld(t, strict())
	for _, path := range []string{"token", "authorize", "introspect", "revoke"} {
		rec := w.ask("POST", "/oauth2/"+path, form, asApp, map[string]string{"Origin": "https://evil.test"})
		h := rec.Header()
		if h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", path, rec.Code, h)
		}
	}
}

// TestEndpointsOfOthers: what a plugin does not offer does not exist.
func TestEndpointsOfOthers(t *testing.T) {
	cfg := strict()
	cfg.Profile = ""
	w := newWorld(t, cfg)
	for _, path := range []string{"/oauth2/introspect", "/oauth2/revoke", "/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-serverx", "/x", "/oauth2/TOKEN", "/oauth2%2Ftoken"} {
		rec := w.ask("POST", path, form, asApp, nil)
		if rec.Code != 404 || strings.TrimSpace(rec.Body.String()) != `{"message":"Not found"}` {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}
