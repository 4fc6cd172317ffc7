package oauth

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestDiskFull: on a full disk no token is handed out and none is used up. The answer says
// that it is not the client's fault, and nothing about the disk.
func TestDiskFull(t *testing.T) {
	w := &world{t: t, now: time.UnixMilli(1_700_000_000_500)}
	disk := &storetest.Full{Store: memstore.Open(memstore.Options{Now: w.clock})}
	t.Cleanup(func() { _ = disk.Close() })
	w.db = disk
	w.fill(gateway.OAuth2Config{
		EnableClientCredentials: true, EnableAuthorizationCode: true, Scopes: []string{"email"}, TokenExpiration: 60, RefreshTokenTTL: 600,
		ProvisionKey: "pk", Endpoints: true, PKCE: "lax", Profile: gateway.ProfileOAuth20,
	})
	access, refresh := w.newPair()
	code := w.newCode()
	requests := map[string]string{
		"token":     "grant_type=client_credentials&" + asApp,
		"token?c":   "grant_type=authorization_code&" + asApp + "&code_verifier=" + verifier + "&code=" + code,
		"token?r":   "grant_type=refresh_token&" + asApp + "&refresh_token=" + refresh,
		"revoke":    asApp + "&token=" + access,
		"authorize": "client_id=app&response_type=code&scope=email&provision_key=pk&authenticated_userid=u&code_challenge=" + challenge + "&code_challenge_method=S256",
	}
	disk.IsFull.Store(true)
	before := w.count(gateway.Tokens)
	for endpoint, body := range requests {
		rec := w.ask("POST", "/x/oauth2/"+endpoint, form, body, nil)
		if strings.Contains(rec.Body.String(), "disk") {
			t.Errorf("%s: the client hears of the disk: %s", endpoint, rec.Body)
		}
		status, doc := w.post(endpoint, body)
		want := map[string]any{"error": "temporarily_unavailable", "error_description": "Nothing can be stored at present, try again later"}
		if diff := cmp.Diff(want, doc); status != 503 || diff != "" {
			t.Errorf("%s: %d %s", endpoint, status, diff)
		}
	}
	if left := w.count(gateway.Tokens); left != before {
		t.Errorf("%d tokens became %d", before, left)
	}
	disk.IsFull.Store(false)
	for _, endpoint := range []string{"token", "token?c", "token?r", "authorize"} {
		if rec := w.ask("POST", "/x/oauth2/"+endpoint, form, requests[endpoint], nil); rec.Code >= 400 {
			t.Errorf("with space again, %s: %d %s", endpoint, rec.Code, rec.Body)
		}
	}
}
