package oauth

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestChallengeSpellings: every spelling of base64 of the right digest verifies, and no
// spelling of another digest does.
func TestChallengeSpellings(t *testing.T) {
	spellings := []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding}
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9._~-]{43,128}`).Draw(t, "verifier")
		sum := sha256.Sum256([]byte(secret))
		spelled := rapid.SampledFrom(spellings).Draw(t, "spelling").EncodeToString(sum[:])
		r := &Request{
			Config:      &gateway.OAuth2Config{PKCE: "lax"},
			Application: &model.Resource{Spec: &gateway.Application{ClientType: gateway.ClientPublic}},
			params:      &params{values: map[string]any{"code_challenge": spelled, "code_verifier": secret}},
		}
		stored, method, e := r.challenge()
		if e != nil || method != methodS256 {
			t.Fatalf("%q: %v", spelled, e)
		}
		if e := r.verify(&gateway.Code{Challenge: stored}); e != nil {
			t.Fatalf("%q does not verify: %v", spelled, e)
		}
		sum[0]++
		if e := r.verify(&gateway.Code{Challenge: base64.RawURLEncoding.EncodeToString(sum[:])}); e != errVerifier {
			t.Fatalf("another digest: %v", e)
		}
	})
}

func TestUndecodableChallengeIsKept(t *testing.T) {
	for _, s := range []string{"!", "a", "a b", "====x", "é"} {
		if got := normalChallenge(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestWhoNeedsPKCE(t *testing.T) {
	for _, tc := range []struct {
		pkce, client, profile string
		want                  bool
	}{
		{"none", gateway.ClientPublic, "", false},
		{"lax", gateway.ClientPublic, "", true},
		{"strict", gateway.ClientPublic, "", true},
		{"none", gateway.ClientConfidential, "", false},
		{"lax", gateway.ClientConfidential, "", false},
		{"strict", gateway.ClientConfidential, "", true},
		{"none", gateway.ClientConfidential, gateway.ProfileOAuth21, true},
		{"none", gateway.ClientPublic, gateway.ProfileOAuth21, true},
	} {
		r := &Request{
			Config:      &gateway.OAuth2Config{PKCE: tc.pkce, Profile: tc.profile},
			Application: &model.Resource{Spec: &gateway.Application{ClientType: tc.client}},
		}
		if got := r.needsPKCE(); got != tc.want {
			t.Errorf("%+v: %t", tc, got)
		}
	}
}
