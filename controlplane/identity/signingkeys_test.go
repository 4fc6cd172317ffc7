package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// signingKeys are made once, because making them takes most of the time of these tests.
var signingKeys = sync.OnceValue(func() (keys [3]*rsa.PrivateKey) {
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, signingKeyBits)
		if err != nil {
			panic(err)
		}
		keys[i] = key
	}
	return keys
})

func pkcs1(k *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
}

func TestGenerateSigningKey(t *testing.T) {
	data, err := GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(data)
	if block == nil || len(rest) != 0 || block.Type != "RSA PRIVATE KEY" {
		t.Fatal("not one PKCS#1 block")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil || key.N.BitLen() != signingKeyBits {
		t.Errorf("%v", err)
	}
}

func serial(t testing.TB, token string) any { return part(t, token, 0)["kid"] }

// TestSigningKeyRotation goes from key 1 to 2 and 10 and back.
func TestSigningKeyRotation(t *testing.T) {
	tt := newTokenTest(t)
	keys := signingKeys()
	first := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	tt.key("m", "2", pkcs1(keys[1]))
	second := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	tt.key("m", "10", pkcs1(keys[2]))
	tenth := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	for i, token := range []string{first, second, tenth} {
		if want := []string{"1", "2", "10"}[i]; serial(t, token) != want {
			t.Errorf("kid %v, want %s", serial(t, token), want)
		}
		if err := tt.authenticate("m.web", token); err != nil {
			t.Error(err)
		}
	}
	tt.removeKey("m", "1")
	err := tt.authenticate("m.web", first)
	if want := `there is no signing key with KID 1. Secret of name "dataplane-token-signing-key-m-1" in mesh "m" is not found. If signing key was rotated, regenerate the token`; !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), want) {
		t.Errorf("with key 1 deleted: %v", err)
	}
	if err := tt.authenticate("m.web", second); err != nil {
		t.Error(err)
	}
	tt.removeKey("m", "10")
	if got := serial(t, tt.issue(DataplaneTokenRequest{Mesh: "m"})); got != "2" {
		t.Errorf("kid %v after 10 is gone", got)
	}
}

// TestSigningKeyMadeAnew deletes a stolen key and makes another one with the same serial.
// The version of the secret is the same, too.
func TestSigningKeyMadeAnew(t *testing.T) {
	tt := newTokenTest(t)
	stolen := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	if err := tt.authenticate("m.web", stolen); err != nil {
		t.Fatal(err)
	}
	tt.removeKey("m", "1")
	tt.key("m", "1", pkcs1(signingKeys()[1]))
	if err := tt.authenticate("m.web", stolen); !fault.Is(err, fault.Denied) {
		t.Errorf("a token of the deleted key: %v", err)
	}
	if err := tt.authenticate("m.web", tt.issue(DataplaneTokenRequest{Mesh: "m"})); err != nil {
		t.Error(err)
	}
}

// TestSigningKeyNames has secrets whose names resemble those of keys.
func TestSigningKeyNames(t *testing.T) {
	tt := newTokenTest(t)
	for _, name := range []string{"01", "003", "-5", "0", "2x", "9.9", "99999999999999999999", "m-7", ""} {
		tt.key("m", name, []byte("not a key"))
	}
	tt.secret("m", "dataplane-token-signing-key-other-9", pkcs1(signingKeys()[1]))
	if got := serial(t, tt.issue(DataplaneTokenRequest{Mesh: "m"})); got != "1" {
		t.Errorf("kid %v", got)
	}
}

func TestSigningKeyMissing(t *testing.T) {
	tt := newTokenTest(t)
	storetest.Place(t, tt.store, mesh.Meshes, "", "bare", &mesh.Mesh{})
	for _, name := range []string{"bare", "x", "../m", "M m"} {
		_, err := tt.Issue(t.Context(), DataplaneTokenRequest{Mesh: name})
		e, ok := errors.AsType[*fault.Error](err)
		want := fmt.Sprintf("there is no signing key with KID 1. Secret of name %q in mesh %q is not found. If signing key was rotated, regenerate the token", "dataplane-token-signing-key-"+name+"-1", name)
		if !ok || e.Code != fault.NotFound || e.Detail != want || e.Subject != any(SigningKeyMissing{name, "1"}) {
			t.Errorf("%#v", err)
		}
	}
}

func TestSigningKeyEncodings(t *testing.T) {
	key := signingKeys()[1]
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"PKCS #1 PEM": pkcs1(key), "PKCS #1 DER": x509.MarshalPKCS1PrivateKey(key),
		"PKCS #8 PEM": pemtext.Encode("PRIVATE KEY", pkcs8), "PKCS #8 DER": pkcs8,
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTokenTest(t)
			tt.key("m", "2", data)
			token := tt.issue(DataplaneTokenRequest{Mesh: "m"})
			if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return &key.PublicKey, nil }, jwt.WithTimeFunc(tt.clock.Now)); err != nil {
				t.Error(err)
			}
			if err := tt.authenticate("m.web", token); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSigningKeyUnusable plants a canary text in data that is not a key, which no error may
// quote.
func TestSigningKeyUnusable(t *testing.T) {
	const canary = "c4n4ry"
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	cut := x509.MarshalPKCS1PrivateKey(signingKeys()[1])[:600]
	for name, data := range map[string][]byte{
		"text": []byte(canary), "empty": nil, "bad PEM": []byte("-----BEGIN RSA PRIVATE KEY-----\n" + canary + "\n-----END RSA PRIVATE KEY-----\n"),
		"PEM of text": pemtext.Encode("RSA PRIVATE KEY", []byte(canary)), "elliptic": pemtext.Encode("PRIVATE KEY", ecDER),
		"cut": pemtext.Encode("RSA PRIVATE KEY", cut), "1024 bits": pkcs1(small),
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTokenTest(t)
			old := tt.issue(DataplaneTokenRequest{Mesh: "m"})
			tt.key("m", "2", data)
			if kid := KeyID(tt.issue(DataplaneTokenRequest{Mesh: "m"})); kid != "1" {
				t.Errorf("key %s signs", kid)
			}
			of2 := sign(t, jwt.SigningMethodRS256, "2", signingKeys()[1], dataplaneClaims())
			for what, err := range map[string]error{"again": tt.authenticate("m.web", of2), "check": tt.authenticate("m.web", of2)} {
				if !fault.Is(err, fault.Internal) {
					t.Errorf("%s: %v", what, err)
				} else if strings.Contains(err.Error(), canary) {
					t.Errorf("%s shows the secret: %v", what, err)
				}
			}
			if err := tt.authenticate("m.web", old); err != nil {
				t.Errorf("a token of the usable key: %v", err)
			}
			tt.removeKey("m", "1")
			if _, err := tt.Issue(t.Context(), DataplaneTokenRequest{Mesh: "m"}); !fault.Is(err, fault.Internal) || strings.Contains(err.Error(), canary) {
				t.Errorf("with no other key: %v", err)
			}
			tt.key("m", "2", pkcs1(signingKeys()[1]))
			if err := tt.authenticate("m.web", of2); err != nil {
				t.Errorf("after the key was corrected: %v", err)
			}
		})
	}
}

// TestSigningKeysAreBounded: neither deleted keys nor too many keys are kept in memory.
func TestSigningKeysAreBounded(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	tt.removeKey("m", "1")
	if err := tt.authenticate("m.web", token); !fault.Is(err, fault.Denied) || len(tt.parsed) != 0 {
		t.Errorf("%v; %d keys are kept", err, len(tt.parsed))
	}
	for i := range 2*maxParsed + 10 {
		_, _ = tt.parse(&model.Resource{Kind: mesh.Secrets, Scope: "m", Name: fmt.Sprint(i), Spec: &mesh.Secret{}})
	}
	if len(tt.parsed) > maxParsed {
		t.Errorf("%d keys are kept", len(tt.parsed))
	}
}

// failingReader cannot read secrets.
type failingReader struct {
	store.Reader
	err error
}

func (r failingReader) Get(*model.Kind, string, string) (*model.Resource, error) { return nil, r.err }

func TestDataplaneTokenKeyCannotBeRead(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	for _, want := range []fault.Code{fault.Unavailable, fault.Internal} {
		if _, err := tt.check(failingReader{err: fault.New(want, "the disk is gone")}, token); !fault.Is(err, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
