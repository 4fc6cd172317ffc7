package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// withFailpoints returns a world over a store with failpoints.
func withFailpoints(t *testing.T, cfg gateway.OAuth2Config) (*world, *storetest.Failpoints) {
	t.Helper()
	w := &world{t: t, now: time.UnixMilli(1_700_000_000_500)}
	points := &storetest.Failpoints{Store: memstore.Open(memstore.Options{Now: w.clock})}
	w.db = points
	t.Cleanup(func() { _ = points.Close() })
	w.fill(cfg)
	return w, points
}

// live reports whether the store has a token of this value, as access or as
// refresh token.
func (w *world) live(value string) bool {
	w.t.Helper()
	found := false
	err := w.db.View(context.Background(), func(r store.Reader) error {
		list, err := r.List(gateway.Tokens, store.Query{Scope: scopeName})
		for _, res := range list {
			token := res.Spec.(*gateway.Token)
			found = found || token.AccessToken == value || token.RefreshToken == value
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// TestEveryStoreCallFailsOnce fails each call of the store that a request makes, one by one.
// Nothing may panic. A token that is handed out must be stored, and a revocation that is
// confirmed must have happened. A request that fails hands out nothing and uses nothing up.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	cfg := gateway.OAuth2Config{
		EnableClientCredentials: true, EnableAuthorizationCode: true, Scopes: []string{"email"}, TokenExpiration: 60, RefreshTokenTTL: 600,
		ProvisionKey: "pk", Profile: gateway.ProfileOAuth20, Endpoints: true, PKCE: "lax",
	}
	bounded := cfg
	bounded.Profile, bounded.PKCE = gateway.ProfileOAuth21, "strict"
	for name, tc := range map[string]struct {
		cfg gateway.OAuth2Config
		// prepare returns the endpoint and the body of the request, and the value that it
		// revokes or uses up.
		prepare func(w *world) (endpoint, body, value string)
		// issues: a successful answer holds a token. revokes: the value is gone after a
		// successful answer.
		issues, revokes bool
	}{
		"client credentials": {cfg: cfg, issues: true, prepare: func(*world) (string, string, string) {
			return "token", "grant_type=client_credentials&" + asApp, ""
		}},
		"a code": {cfg: cfg, issues: true, prepare: func(w *world) (string, string, string) {
			return "token", "grant_type=authorization_code&" + asApp + "&code_verifier=" + verifier + "&code=" + w.newCode(), ""
		}},
		"a refresh token": {cfg: cfg, issues: true, revokes: true, prepare: func(w *world) (string, string, string) {
			_, refresh := w.newPair()
			return "token", "grant_type=refresh_token&" + asApp + "&refresh_token=" + refresh, refresh
		}},
		"a refresh token, strict": {cfg: bounded, issues: true, prepare: func(w *world) (string, string, string) {
			_, refresh := w.newPair()
			return "token", "grant_type=refresh_token&" + asApp + "&refresh_token=" + refresh, ""
		}},
		"revocation of an access token": {cfg: cfg, revokes: true, prepare: func(w *world) (string, string, string) {
			access, _ := w.newPair()
			return "revoke", asApp + "&token=" + access, access
		}},
		"revocation of a refresh token": {cfg: cfg, revokes: true, prepare: func(w *world) (string, string, string) {
			access, refresh := w.newPair()
			return "revoke", asApp + "&token=" + refresh, access
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, points := withFailpoints(t, tc.cfg)
			endpoint, body, _ := tc.prepare(w)
			points.Arm(0)
			if rec := w.ask("POST", "/x/oauth2/"+endpoint, form, body, nil); rec.Code != 200 || points.Calls() == 0 {
				t.Fatalf("without a failure: %d %s after %d calls", rec.Code, rec.Body, points.Calls())
			}
			for at := 1; at <= points.Calls(); at++ {
				sweepOne(t, tc.cfg, at, tc.prepare, tc.issues, tc.revokes)
			}
		})
	}
}

func sweepOne(t *testing.T, cfg gateway.OAuth2Config, at int, prepare func(*world) (string, string, string), issues, revokes bool) {
	t.Helper()
	w, points := withFailpoints(t, cfg)
	endpoint, body, value := prepare(w)
	before := w.count(gateway.Tokens)
	points.Arm(at)
	rec := w.ask("POST", "/x/oauth2/"+endpoint, form, body, nil)
	call := points.Hit()
	points.Arm(0)
	where := fmt.Sprintf("call %d (%s)", at, call)
	var doc struct {
		Access string `json:"access_token"`
	}
	_ = json.Unmarshal(rec.Body.Bytes(), &doc)
	if rec.Code != 200 {
		// The revocation of a family takes several commits, some of which may have happened.
		if left := w.count(gateway.Tokens); doc.Access != "" || left > before || issues && left != before {
			t.Errorf("%s failed, the answer is %d %s, and %d tokens became %d", where, rec.Code, rec.Body, before, left)
		}
		if rec.Code < 500 {
			t.Errorf("%s failed, and the client is blamed: %d %s", where, rec.Code, rec.Body)
		}
		// Nothing was used up: the same request works now.
		if again := w.ask("POST", "/x/oauth2/"+endpoint, form, body, nil); again.Code != 200 {
			t.Errorf("after %s had failed: %d %s", where, again.Code, again.Body)
		}
		return
	}
	if issues && (doc.Access == "" || !w.live(doc.Access)) {
		t.Errorf("%s failed, and a token was handed out that is not stored: %s", where, url.QueryEscape(rec.Body.String()))
	}
	if revokes && w.live(value) {
		t.Errorf("%s failed, and what was confirmed as revoked is still good", where)
	}
}
