package oauth

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// laxPlugin adds an instance in the compatible profile to the service of the strict one, as a
// second route may have it. It returns a function that sends requests to it.
func (w *world) laxPlugin(edit func(*gateway.OAuth2Config)) func(endpoint, body string) (int, map[string]any) {
	w.t.Helper()
	cfg := strict()
	cfg.Profile, cfg.AuthHeaderName = gateway.ProfileOAuth20, "authorization"
	if edit != nil {
		edit(&cfg)
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.db.Update(w.t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Plugins, Scope: scopeName, Name: "lax", Spec: &gateway.Plugin{Name: gateway.PluginOAuth2, Enabled: true, Service: "s1", Config: raw}})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return func(endpoint, body string) (int, map[string]any) {
		return w.postAs(map[string]string{contract.HeaderOAuthPlugin: "lax"}, endpoint, body)
	}
}

// postAs is post with headers of the gateway.
func (w *world) postAs(header map[string]string, endpoint, body string) (int, map[string]any) {
	w.t.Helper()
	rec := w.ask("POST", "/x/oauth2/"+endpoint, form, body, header)
	var doc map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		w.t.Fatalf("%d %q: %v", rec.Code, rec.Body, err)
	}
	return rec.Code, doc
}

// TestTheftIsSeenAtLaxPlugins: a refresh token of the strict profile is redeemed at an
// instance of the same service that is not strict. The second use, at either instance, shows
// that the token was stolen, and the whole family is revoked.
func TestTheftIsSeenAtLaxPlugins(t *testing.T) {
	for name, reuse := range map[string]bool{"rotating": false, "reusing": true} {
		for second, atLax := range map[string]bool{"the client is second": false, "the thief is second": true} {
			t.Run(name+", "+second, func(t *testing.T) {
				worlds(t, strict(), func(t *testing.T, w *world) {
					lax := w.laxPlugin(func(c *gateway.OAuth2Config) { c.ReuseRefreshToken = reuse })
					first, then := lax, w.post
					if atLax {
						first, then = w.post, lax
					}
					stolen := w.publicRefresh()
					status, won := first("token", refreshAsPublic+stolen)
					if status != 200 {
						t.Fatalf("%d %v", status, won)
					}
					if status, doc := then("token", refreshAsPublic+stolen); status != 400 {
						t.Errorf("the second use: %d %v", status, doc)
					}
					if w.lives(won["access_token"].(string)) || w.count(gateway.Tokens) != 0 {
						t.Error("the family lives")
					}
				})
			})
		}
	}
}

// TestTheftIsSeenFurtherDown: a token that the lax instance issues for one of the strict
// profile belongs to the same family.
func TestTheftIsSeenFurtherDown(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		lax := w.laxPlugin(nil)
		_, first := lax("token", refreshAsPublic+w.publicRefresh())
		again, _ := first["refresh_token"].(string)
		if status, doc := lax("token", refreshAsPublic+again); status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
		if status, doc := lax("token", refreshAsPublic+again); status != 400 || w.count(gateway.Tokens) != 0 {
			t.Errorf("%d %v, %d tokens are left", status, doc, w.count(gateway.Tokens))
		}
	})
}

// TestLaxPluginsAreAsBefore: families of the compatible profile are not remembered.
func TestLaxPluginsAreAsBefore(t *testing.T) {
	cfg := strict()
	cfg.Profile = gateway.ProfileOAuth20
	worlds(t, cfg, func(t *testing.T, w *world) {
		first := w.publicRefresh()
		_, won := w.post("token", refreshAsPublic+first)
		if status, _ := w.post("token", refreshAsPublic+first); status != 400 || !w.lives(won["access_token"].(string)) || w.count(gateway.SpentValues) != 0 {
			t.Errorf("%d, %d values are remembered", status, w.count(gateway.SpentValues))
		}
	})
}

// TestStrictCodesStayStrict: a code of the strict profile is exchanged by its own
// instance only.
func TestStrictCodesStayStrict(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		lax := w.laxPlugin(nil)
		code := w.newCode()
		exchange := "grant_type=authorization_code&" + asApp + "&code_verifier=" + verifier + "&code=" + code
		if status, doc := lax("token", exchange); status != 400 || doc["error_description"] != "Invalid code" {
			t.Errorf("at a lax instance: %d %v", status, doc)
		}
		if status, doc := w.post("token", exchange); status != 200 {
			t.Errorf("at its own: %d %v", status, doc)
		}
	})
}

// TestNothingIsIssuedForNoService: on a route without a service, a plugin that is not global
// has no service to bind a token to. A token without a service would be valid at every global
// plugin. Such a plugin does not know unbound tokens either.
func TestNothingIsIssuedForNoService(t *testing.T) {
	cfg := strict()
	cfg.Profile, cfg.Endpoints = gateway.ProfileOAuth20, true
	w := newWorld(t, cfg)
	nowhere := map[string]string{contract.HeaderOAuthService: ""}
	for endpoint, body := range map[string]string{
		"token":      "grant_type=client_credentials&" + asApp,
		"authorize":  "provision_key=pk&authenticated_userid=u&client_id=app&response_type=code&scope=email",
		"introspect": asApp + "&token=x",
		"revoke":     asApp + "&token=x",
	} {
		status, doc := w.postAs(nowhere, endpoint, body)
		if text, _ := doc["message"].(string); status != 503 || !strings.Contains(text, "no Service") {
			t.Errorf("%s: %d %v", endpoint, status, doc)
		}
	}
	if w.count(gateway.Tokens)+w.count(gateway.Codes) != 0 {
		t.Error("something was issued")
	}
	cfg.GlobalCredentials = true
	w = newWorld(t, cfg)
	if status, doc := w.postAs(nowhere, "token", "grant_type=client_credentials&"+asApp); status != 200 {
		t.Errorf("a global plugin needs no service: %d %v", status, doc)
	}
}
