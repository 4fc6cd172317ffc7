package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
)

func newEC(t *testing.T) (*ecdsa.PrivateKey, func(kid string) map[string]any) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return key, func(kid string) map[string]any {
		return map[string]any{"kty": "EC", "crv": "P-256", "kid": kid, "x": encode(point[1:33]), "y": encode(point[33:])}
	}
}

func (p *provider) rs(kid string, key *rsa.PrivateKey) string {
	return p.token(jwt.SigningMethodRS256, kid, key, nil)
}

func (p *provider) fetched(want int32) {
	p.t.Helper()
	if got := p.fetches.Load(); got != want {
		p.t.Errorf("%d fetches, want %d", got, want)
	}
}

// TestKeysThatChangeUnderTheirID: a key that takes the place of another one with its id, or without any,
// is found as soon as a fetch is allowed, as is one of another type beside it. Signatures of strangers
// cause no more fetches than that.
func TestKeysThatChangeUnderTheirID(t *testing.T) {
	for _, kid := range []string{"a", ""} {
		p := newProvider(t)
		older, newer, stranger := newRSA(t), newRSA(t), newRSA(t)
		p.set = []map[string]any{rsaKey(kid, &older.PublicKey)}
		if err := p.check(p.rs(kid, older)); err != nil {
			t.Fatal(err)
		}
		p.fetched(1)
		p.set = []map[string]any{rsaKey(kid, &newer.PublicKey)}
		if err := p.check(p.rs(kid, newer)); !fault.Is(err, fault.Denied) {
			t.Errorf("%q, before a fetch is allowed: %v", kid, err)
		}
		p.fetched(1)
		p.now = p.now.Add(pause)
		if err := p.check(p.rs(kid, newer)); err != nil {
			t.Errorf("%q: %v", kid, err)
		}
		p.fetched(2)
		if err := p.check(p.rs(kid, older)); !fault.Is(err, fault.Denied) {
			t.Errorf("%q, by the key that was replaced: %v", kid, err)
		}
		p.now = p.now.Add(pause)
		for range 5 {
			if err := p.check(p.rs(kid, stranger)); !fault.Is(err, fault.Denied) {
				t.Errorf("%q, by a stranger: %v", kid, err)
			}
		}
		p.fetched(3)
		curve, public := newEC(t)
		p.set, p.now = append(p.set, public(kid)), p.now.Add(pause)
		if err := p.check(p.token(jwt.SigningMethodES256, kid, curve, nil)); err != nil {
			t.Errorf("%q, of another type: %v", kid, err)
		}
		p.fetched(4)
		if err := p.check(p.rs(kid, newer)); err != nil {
			t.Errorf("%q: %v", kid, err)
		}
		p.fetched(4)
	}
}

// TestOnlyBadSignaturesCauseFetches: a token that is refused for what it says was signed with a key that
// is known.
func TestOnlyBadSignaturesCauseFetches(t *testing.T) {
	p := newProvider(t)
	if err := p.check(p.rs("a", p.rsa)); err != nil {
		t.Fatal(err)
	}
	p.now = p.now.Add(pause)
	for name, claims := range map[string]jwt.MapClaims{"expired": {"exp": p.now.Add(-time.Hour).Unix()}, "for others": {"aud": "other"}, "of nobody": {"sub": nil}} {
		if err := p.check(p.token(jwt.SigningMethodRS256, "a", p.rsa, claims)); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.fetched(1)
}

// TestNewKeysWhileTheIssuerIsAway: a token whose key cannot be looked up is not judged, and the reason is
// told, whether its id is unknown or its key may have changed. Keys that are known go on.
func TestNewKeysWhileTheIssuerIsAway(t *testing.T) {
	p := newProvider(t)
	newer := newRSA(t)
	if err := p.check(p.rs("a", p.rsa)); err != nil {
		t.Fatal(err)
	}
	if err := p.check(p.rs("new", newer)); !fault.Is(err, fault.Denied) {
		t.Errorf("while the issuer works: %v", err)
	}
	p.now, p.down = p.now.Add(pause), true
	for range 3 { // with a fetch, and in the pause after it
		for _, kid := range []string{"new", "a"} {
			if err := p.check(p.rs(kid, newer)); !fault.Is(err, fault.Unavailable) || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "answers 500") {
				t.Errorf("%s: %v", kid, err)
			}
		}
		if err := p.check(p.rs("a", p.rsa)); err != nil {
			t.Errorf("a known key: %v", err)
		}
	}
	p.down, p.now = false, p.now.Add(pause)
	if err := p.check(p.rs("new", newer)); !fault.Is(err, fault.Denied) {
		t.Errorf("when the issuer is back: %v", err)
	}
	p.fetched(2)
}

// TestAwayIssuersAreAskedSeldom: strangers do not cause more attempts than the pause allows while all fail.
func TestAwayIssuersAreAskedSeldom(t *testing.T) {
	p := newProvider(t)
	if err := p.check(p.rs("a", p.rsa)); err != nil {
		t.Fatal(err)
	}
	stranger := newRSA(t)
	p.down, p.now = true, p.now.Add(pause)
	before := p.asked.Load()
	for n := range 10 {
		for _, kid := range []string{"a", "", fmt.Sprint("made-up-", n)} {
			if err := p.check(p.rs(kid, stranger)); !fault.Is(err, fault.Unavailable) {
				t.Errorf("%q: %v", kid, err)
			}
		}
	}
	if n := p.asked.Load() - before; n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestTokensThatNameNoKey: they need not where the issuer has one key that fits, or few (OpenID Connect
// Core 1.0 section 10.1). Where it has many, only those without ids are tried.
func TestTokensThatNameNoKey(t *testing.T) {
	p := newProvider(t)
	curve, public := newEC(t)
	if err := p.check(p.rs("", p.rsa)); err != nil {
		t.Errorf("of the only key: %v", err)
	}
	if err := p.check(p.rs("", newRSA(t))); !fault.Is(err, fault.Denied) {
		t.Errorf("of a stranger: %v", err)
	}
	again := func(set ...map[string]any) { p.set, p.now = set, p.now.Add(fresh) }
	var others []map[string]any
	for n := range maxAlike - 1 {
		others = append(others, rsaKey(fmt.Sprint("b", n), &newRSA(t).PublicKey))
	}
	again(append(others, rsaKey("a", &p.rsa.PublicKey), public("ec"))...)
	for name, token := range map[string]string{"of the last key": p.rs("", p.rsa), "of the only key of its type": p.token(jwt.SigningMethodES256, "", curve, nil)} {
		if err := p.check(token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	nameless := newRSA(t)
	again(append(others, rsaKey("a", &p.rsa.PublicKey), rsaKey("", &nameless.PublicKey))...)
	if err := p.check(p.rs("", p.rsa)); !fault.Is(err, fault.Denied) {
		t.Errorf("of one of many: %v", err)
	}
	if err := p.check(p.rs("", nameless)); err != nil {
		t.Errorf("of the one without an id: %v", err)
	}
}
