package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

func openTokens(t testing.TB, c *identitytest.Clock) *Tokens {
	t.Helper()
	tokens, err := OpenTokens(t.Context(), identitytest.Memory(t), c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// claims returns the claims of a good token for cp/default/gw.
func claims() jwt.MapClaims {
	return jwt.MapClaims{
		"exp": identitytest.Epoch.Add(time.Hour).Unix(), "nbf": identitytest.Epoch.Add(-time.Minute).Unix(),
		"jti": "t-1", "Name": "gw", "ControlPlane": "default", "Type": "oauth-gateway",
	}
}

// with returns good claims with one of them changed, or removed if the value is nil.
func with(name string, value any) jwt.MapClaims {
	c := claims()
	if c[name] = value; value == nil {
		delete(c, name)
	}
	return c
}

func sign(t testing.TB, m jwt.SigningMethod, kid, key any, c jwt.Claims) string {
	t.Helper()
	j := jwt.NewWithClaims(m, c)
	if kid != nil {
		j.Header["kid"] = kid
	}
	s, err := j.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAuthenticate presents what an attacker, a stranger and the passing of time can make of
// a token.
func TestAuthenticate(t *testing.T) {
	tokens := openTokens(t, identitytest.NewClock())
	other, err := rsa.GenerateKey(rand.Reader, tokenKeyBits)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&tokens.newestKey().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	good := sign(t, jwt.SigningMethodRS256, "1", tokens.newestKey(), claims())
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"1"}`)) + "." + parts[1] + "."
	rs := func(c jwt.MapClaims) string { return sign(t, jwt.SigningMethodRS256, "1", tokens.newestKey(), c) }
	for _, test := range []struct {
		name, node, token string
		want              fault.Code
	}{
		{"good", "cp/default/gw", good, ""},
		{"with its scheme", "cp/default/gw", "Bearer " + good, ""},
		{"another node", "cp/default/gw2", good, fault.Forbidden},
		{"another control plane", "cp/other/gw", good, fault.Forbidden},
		{"no node", "", good, fault.Forbidden},
		{"alg none", "cp/default/gw", none, fault.Denied},
		{"alg none by the library", "cp/default/gw", sign(t, jwt.SigningMethodNone, "1", jwt.UnsafeAllowNoneSignatureType, claims()), fault.Denied},
		{"HS256 with the public key", "cp/default/gw", sign(t, jwt.SigningMethodHS256, "1", public, claims()), fault.Denied},
		{"HS256 with the public key in DER", "cp/default/gw", sign(t, jwt.SigningMethodHS256, "1", der, claims()), fault.Denied},
		{"RS512", "cp/default/gw", sign(t, jwt.SigningMethodRS512, "1", tokens.newestKey(), claims()), fault.Denied},
		{"PS256", "cp/default/gw", sign(t, jwt.SigningMethodPS256, "1", tokens.newestKey(), claims()), fault.Denied},
		{"another key", "cp/default/gw", sign(t, jwt.SigningMethodRS256, "1", other, claims()), fault.Denied},
		{"wrong kid", "cp/default/gw", sign(t, jwt.SigningMethodRS256, "2", tokens.newestKey(), claims()), fault.Denied},
		{"numeric kid", "cp/default/gw", sign(t, jwt.SigningMethodRS256, 1, tokens.newestKey(), claims()), fault.Denied},
		{"no kid", "cp/default/gw", sign(t, jwt.SigningMethodRS256, nil, tokens.newestKey(), claims()), fault.Denied},
		{"expired", "cp/default/gw", rs(with("exp", identitytest.Epoch.Add(-time.Second).Unix())), fault.Denied},
		{"expires now", "cp/default/gw", rs(with("exp", identitytest.Epoch.Unix())), fault.Denied},
		{"not yet valid", "cp/default/gw", rs(with("nbf", identitytest.Epoch.Add(time.Second).Unix())), fault.Denied},
		{"no exp", "cp/default/gw", rs(with("exp", nil)), fault.Denied},
		{"exp is text", "cp/default/gw", rs(with("exp", "tomorrow")), fault.Denied},
		{"another type", "cp/default/gw", rs(with("Type", "dataplane")), fault.Denied},
		{"no type", "cp/default/gw", rs(with("Type", nil)), fault.Denied},
		{"no name", "cp/default/", rs(with("Name", nil)), fault.Denied},
		{"a name that is none", "cp/default/a/b", rs(with("Name", "a/b")), fault.Denied},
		{"no control plane", "cp//gw", rs(with("ControlPlane", nil)), fault.Denied},
		{"cut", "cp/default/gw", good[:len(good)-2], fault.Denied},
		{"other claims under the signature", "cp/default/gw", parts[0] + "." + strings.Split(rs(with("Name", "gx")), ".")[1] + "." + parts[2], fault.Denied},
		{"empty", "cp/default/gw", "", fault.Denied},
		{"too long", "cp/default/gw", rs(with("pad", strings.Repeat("x", maxTokenLength))), fault.Denied},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := tokens.Authenticate(t.Context(), test.node, test.token)
			if got := fault.CodeOf(err); got != test.want {
				t.Errorf("%q (%v), want %q", got, err, test.want)
			}
		})
	}
}

func TestGatewayToken(t *testing.T) {
	c := identitytest.NewClock()
	tokens := openTokens(t, c)
	token, err := tokens.Gateway("default", "gw-1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tokens.Check(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	want := &Claims{Name: "gw-1", ControlPlane: "default", Type: "oauth-gateway", RegisteredClaims: jwt.RegisteredClaims{
		ID: got.ID, IssuedAt: jwt.NewNumericDate(identitytest.Epoch), NotBefore: jwt.NewNumericDate(identitytest.Epoch.Add(-Backdate)), ExpiresAt: jwt.NewNumericDate(identitytest.Epoch.Add(time.Hour)),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.ID == "" || got.NodeID() != "cp/default/gw-1" {
		t.Errorf("id %q, node %q", got.ID, got.NodeID())
	}
	c.Advance(time.Hour)
	if _, err := tokens.Check(t.Context(), token); !fault.Is(err, fault.Denied) {
		t.Errorf("after its life: %v", err)
	}
}

// TestGatewayTokenRefused: a token that Check would refuse is never issued.
func TestGatewayTokenRefused(t *testing.T) {
	tokens := openTokens(t, identitytest.NewClock())
	for _, test := range []struct {
		controlPlane, name string
		life               time.Duration
		path               string
	}{
		{"default", "", time.Hour, "name"},
		{"default", "a/b", time.Hour, "name"},
		{"default", "Upper", time.Hour, "name"},
		{"default", "-gw", time.Hour, "name"},
		{"default", "..", time.Hour, "name"},
		{"default", "gw\n", time.Hour, "name"},
		{"default", strings.Repeat("a", 64), time.Hour, "name"},
		{"", "gw", time.Hour, "controlPlane"},
		{"default/gw", "gw", time.Hour, "controlPlane"},
		{"default", "gw", 0, "validFor"},
		{"default", "gw", -time.Hour, "validFor"},
	} {
		_, err := tokens.Gateway(test.controlPlane, test.name, test.life)
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Code != fault.Invalid || len(e.Violations) != 1 || e.Violations[0].Path != test.path {
			t.Errorf("Gateway(%q, %q, %s): %v, want a violation of %s", test.controlPlane, test.name, test.life, err, test.path)
		}
	}
	for _, name := range []string{"g", "gw-1", "a.b", strings.Repeat("a", 63)} {
		if err := CheckInstance(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzCheck: only tokens that were signed here pass, and every refusal is a Denied fault.
func FuzzCheck(f *testing.F) {
	tokens := openTokens(f, identitytest.NewClock())
	good := sign(f, jwt.SigningMethodRS256, "1", tokens.newestKey(), claims())
	parts := strings.Split(good, ".")
	for _, seed := range []string{
		good, "", ".", "..", "...", "Bearer " + good, good + ".", good + "=", parts[0] + "." + parts[1] + ".",
		"eyJhbGciOiJub25lIiwia2lkIjoiMSJ9." + parts[1] + ".", "e30.e30.", "bnVsbA.bnVsbA.AA", "W10.W10.AA",
		parts[0] + ".bnVsbA." + parts[2], "eyJhbGciOjEsImtpZCI6W119." + parts[1] + "." + parts[2],
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		c, err := tokens.Check(t.Context(), token)
		switch {
		case err != nil && !fault.Is(err, fault.Denied):
			t.Errorf("refused with %q: %v", fault.CodeOf(err), err)
		case err == nil && (c.NodeID() != "cp/default/gw" || !strings.HasPrefix(token, parts[0]+"."+parts[1]+".")):
			t.Errorf("accepted %q as %s", token, c.NodeID())
		}
	})
}

// TestGatewayTokenRevoked: a listed id invalidates a token and all of its successors, and
// nothing else. A token without an id is refused.
func TestGatewayTokenRevoked(t *testing.T) {
	c, s := identitytest.NewClock(), identitytest.Memory(t)
	tokens, err := OpenTokens(t.Context(), s, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	issue := func() string {
		token, err := tokens.Gateway("default", "gw", GatewayTokenLife)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	stolen, other := issue(), issue()
	c.Advance(time.Hour)
	successor, err := tokens.Renew(t.Context(), stolen)
	if err != nil {
		t.Fatal(err)
	}
	was, err := tokens.Check(t.Context(), stolen)
	if err != nil {
		t.Fatal(err)
	}
	is, err := tokens.Check(t.Context(), successor)
	if err != nil || is.ID != was.ID || is.NodeID() != was.NodeID() || !is.ExpiresAt.Equal(was.ExpiresAt.Add(time.Hour)) {
		t.Fatalf("renewed: %+v, %v", is, err)
	}
	if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.GlobalSecrets, Name: mesh.GatewayTokenRevocations, Spec: &mesh.Secret{Data: []byte("x, " + was.ID + "\n")}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"revoked": stolen, "successor": successor} {
		if _, err := tokens.Check(t.Context(), token); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := tokens.Renew(t.Context(), token); !fault.Is(err, fault.Denied) {
			t.Errorf("%s can be renewed: %v", name, err)
		}
	}
	if _, err := tokens.Check(t.Context(), other); err != nil {
		t.Errorf("another token: %v", err)
	}
	if _, err := tokens.Check(t.Context(), sign(t, jwt.SigningMethodRS256, "1", tokens.newestKey(), with("jti", nil))); !fault.Is(err, fault.Denied) {
		t.Errorf("without an id: %v", err)
	}
}

// TestRenewalsAreShort: a token that is valid for years is renewed for days only.
func TestRenewalsAreShort(t *testing.T) {
	c := identitytest.NewClock()
	tokens := openTokens(t, c)
	old, err := tokens.Gateway("default", "gw", 10*365*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	next, err := tokens.Renew(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tokens.Check(t.Context(), next); err != nil || !got.ExpiresAt.Equal(identitytest.Epoch.Add(GatewayTokenLife)) {
		t.Errorf("%+v, %v", got, err)
	}
}

// newestKey returns the key that signs.
func (t *Tokens) newestKey() *rsa.PrivateKey { return t.keys.Load().newest().key }
