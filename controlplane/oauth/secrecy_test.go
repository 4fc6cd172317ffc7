package oauth

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// TestNothingSecretIsLogged sends requests in both profiles that succeed, fail, replay, guess
// and break, and then looks for their secrets in the log.
func TestNothingSecretIsLogged(t *testing.T) {
	for name, cfg := range profiles() {
		t.Run(name, func(t *testing.T) {
			cfg.RefreshTokenGrace, cfg.ProvisionKey = 0, "canary-provision-key"
			cfg.EnablePasswordGrant, cfg.EnableImplicitGrant = !cfg.Strict(), !cfg.Strict()
			w := newWorld(t, cfg)
			var log bytes.Buffer
			w.server.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			secrets := map[string]bool{"canary-provision-key": true, verifier: true, "canary": true}
			keep := func(doc map[string]any) {
				for _, member := range []string{"access_token", "refresh_token"} {
					if v, ok := doc[member].(string); ok {
						secrets[v] = true
					}
				}
			}
			w.setApp(func(a *gateway.Application) { a.ClientSecret, a.HashSecret = "canary-secret", true })
			app := "client_id=app&client_secret=canary-secret"
			agreed := "&authenticated_userid=canary-user&state=canary-state&client_id=app&scope=email&code_challenge_method=S256&code_challenge=" + challenge
			w.post("authorize", "provision_key=canary-wrong-key"+agreed)
			w.post("authorize", "response_type=token&provision_key=canary-provision-key"+agreed)
			_, doc := w.post("authorize", "response_type=code&provision_key=canary-provision-key"+agreed)
			uri, err := url.Parse(fmt.Sprint(doc["redirect_uri"]))
			if err != nil {
				t.Fatal(err)
			}
			code := uri.Query().Get("code")
			secrets[code] = true
			exchange := "grant_type=authorization_code&" + app + "&code_verifier=" + verifier + "&code=" + code
			_, first := w.post("token", exchange)
			keep(first)
			access, refresh := fmt.Sprint(first["access_token"]), fmt.Sprint(first["refresh_token"])
			if len(secrets) != 6 {
				t.Fatalf("%d secrets: %v", len(secrets), first)
			}
			for range 2 {
				_, again := w.post("token", "grant_type=refresh_token&"+app+"&refresh_token="+refresh)
				keep(again)
			}
			w.post("token", exchange)
			w.post("token", "grant_type=client_credentials&client_id=app&client_secret=canary-guess")
			w.post("token", "grant_type=authorization_code&"+app+"&code=canary-code&code_verifier="+verifier)
			w.post("token", "grant_type=password&"+app+"&provision_key=canary-provision-key&authenticated_userid=canary-user&username=canary-name&password=canary-password")
			w.ask("POST", "/oauth2/token?client_secret=canary-secret", form, "grant_type=client_credentials&client_id=app", nil)
			w.ask("POST", "/oauth2/token", form, "grant_type=client_credentials", map[string]string{"Authorization": basicAuth("app", "canary-secret")})
			w.ask("POST", "/oauth2/introspect", form, app+"&token="+access, nil)
			w.server.Writer = failing{Store: w.db}
			w.ask("POST", "/oauth2/token", form, "grant_type=client_credentials&"+app, nil)
			w.ask("POST", "/oauth2/token", form, exchange, nil)
			w.ask("POST", "/oauth2/revoke", form, app+"&token="+access, nil)
			want := []string{"died", "used again"}
			if !cfg.Strict() {
				want = []string{"died", "legacy"}
			}
			for _, text := range want {
				if !strings.Contains(log.String(), text) {
					t.Errorf("nothing says %q:\n%s", text, &log)
				}
			}
			for secret := range secrets {
				if strings.Contains(log.String(), secret) {
					t.Errorf("%q is logged:\n%s", secret, &log)
				}
			}
		})
	}
}

// TestLegacyGrantsAreLogged: the use of a legacy grant is logged once for each plugin and
// grant.
func TestLegacyGrantsAreLogged(t *testing.T) {
	cfg := gateway.OAuth2Config{EnablePasswordGrant: true, EnableImplicitGrant: true, EnableClientCredentials: true, ProvisionKey: "pk"}
	w := newWorld(t, cfg)
	var log bytes.Buffer
	w.server.Log = slog.New(slog.NewTextHandler(&log, nil))
	const user = "&provision_key=pk&authenticated_userid=u"
	w.post("token", "grant_type=client_credentials&"+asApp)
	w.post("token", "grant_type=password&client_id=app&client_secret=wrong"+user)
	if log.Len() != 0 {
		t.Errorf("logged before its use:\n%s", &log)
	}
	for range 3 {
		if status, doc := w.post("token", "grant_type=password&"+asApp+user); status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
		if status, doc := w.post("authorize", "response_type=token&client_id=app"+user); status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "grant=password plugin=p1") || !strings.Contains(text, "grant=implicit plugin=p1") {
		t.Errorf("logged:\n%s", text)
	}
}

// TestAnswersAreNobodyElses: no answer may be cached, read by other pages, or reveal where a
// browser came from.
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

// TestEndpointsOfOthers: endpoints that a plugin does not offer do not exist.
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
