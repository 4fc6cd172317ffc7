package oidc

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// provider is a small issuer.
type provider struct {
	t *testing.T
	*httptest.Server
	*Issuer
	now     time.Time
	rsa     *rsa.PrivateKey
	set     []map[string]any
	fetches atomic.Int32
	asked   atomic.Int32 // for anything
	// down, calls, query, and page change its answers.
	down  bool
	calls string
	query string
	page  string
	log   bytes.Buffer
}

func newProvider(t *testing.T) *provider {
	key := newRSA(t)
	p := &provider{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), rsa: key, set: []map[string]any{rsaKey("a", &key.PublicKey)}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		switch {
		case p.down:
			http.Error(w, "down", http.StatusInternalServerError)
		case r.URL.Path == "/.well-known/openid-configuration":
			name := p.URL
			if p.calls != "" {
				name = p.calls
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": name, "jwks_uri": p.URL + "/keys" + p.query})
		case p.query != "" && r.URL.RawQuery != p.query[1:]:
			http.Error(w, "another query", http.StatusNotFound)
		case p.page != "":
			_, _ = w.Write([]byte(p.page))
		default:
			p.fetches.Add(1)
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": p.set})
		}
	}))
	t.Cleanup(p.Close)
	var err error
	p.Issuer, err = New(Options{Issuer: p.URL, Audience: "meshgate", UserClaim: "sub", GroupsClaim: "groups", Client: p.Client(), Now: func() time.Time { return p.now }, Log: slog.New(slog.NewTextHandler(&p.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	p.keys.patience = time.Minute // it is real time, and the machine may be slow
	t.Cleanup(p.End)
	return p
}

func newRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func rsaKey(kid string, key *rsa.PublicKey) map[string]any {
	return map[string]any{"kty": "RSA", "kid": kid, "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}
}

// token signs good claims with some of them changed; nil removes one. Without an id it names no key.
func (p *provider) token(m jwt.SigningMethod, kid string, key any, change jwt.MapClaims) string {
	p.t.Helper()
	c := jwt.MapClaims{"iss": p.URL, "aud": "meshgate", "sub": "bob", "groups": []string{"a", "b"}, "exp": p.now.Add(time.Hour).Unix()}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	j := jwt.NewWithClaims(m, c)
	if kid != "" {
		j.Header["kid"] = kid
	}
	s, err := j.SignedString(key)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *provider) check(token string) error {
	_, _, err := p.Issuer.Check(p.t.Context(), token)
	return err
}

// TestCheck: whose token counts, and whose does not.
func TestCheck(t *testing.T) {
	p := newProvider(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := p.token(jwt.SigningMethodRS256, "a", p.rsa, nil)
	user, groups, err := p.Check(t.Context(), good)
	if err != nil || user != "bob" || !slices.Equal(groups, []string{"a", "b"}) || !p.Issued(good) {
		t.Fatalf("%s %v %v", user, groups, err)
	}
	rs := func(c jwt.MapClaims) string { return p.token(jwt.SigningMethodRS256, "a", p.rsa, c) }
	for _, ok := range []string{rs(jwt.MapClaims{"groups": nil}), rs(jwt.MapClaims{"groups": "a"}), rs(jwt.MapClaims{"aud": []string{"x", "meshgate"}}), rs(jwt.MapClaims{"exp": p.now.Add(-20 * time.Second).Unix()})} {
		if err := p.check(ok); err != nil {
			t.Error(err)
		}
	}
	for name, token := range map[string]string{
		"another audience":    rs(jwt.MapClaims{"aud": "other"}),
		"no audience":         rs(jwt.MapClaims{"aud": nil}),
		"another issuer":      rs(jwt.MapClaims{"iss": "https://evil.example"}),
		"expired":             rs(jwt.MapClaims{"exp": p.now.Add(-time.Minute).Unix()}),
		"without an end":      rs(jwt.MapClaims{"exp": nil}),
		"not yet":             rs(jwt.MapClaims{"nbf": p.now.Add(time.Hour).Unix()}),
		"no user":             rs(jwt.MapClaims{"sub": nil}),
		"a user of no text":   rs(jwt.MapClaims{"sub": 7}),
		"groups of no text":   rs(jwt.MapClaims{"groups": []any{1}}),
		"groups of no list":   rs(jwt.MapClaims{"groups": map[string]any{"a": 1}}),
		"another's signature": p.token(jwt.SigningMethodRS256, "a", other, nil),
		"unknown key":         p.token(jwt.SigningMethodRS256, "z", p.rsa, nil),
		"shared secret":       p.token(jwt.SigningMethodHS256, "a", p.rsa.N.Bytes(), nil),
		"no signature":        p.token(jwt.SigningMethodNone, "a", jwt.UnsafeAllowNoneSignatureType, nil),
		"too long":            strings.Repeat("x", maxToken+1),
		"nothing":             "",
	} {
		if err := p.check(token); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeys: keys of every type are read, and those for something else are not used.
func TestKeys(t *testing.T) {
	p := newProvider(t)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := ec.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	public, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	older, strange := newRSA(t), newRSA(t)
	encrypts, ps := rsaKey("enc", &p.rsa.PublicKey), rsaKey("ps", &p.rsa.PublicKey)
	encrypts["use"], ps["alg"] = "enc", "PS256"
	weak := rsaKey("weak", &rsa.PublicKey{N: new(big.Int).Rsh(p.rsa.N, 1100), E: 65537})
	p.set = append(p.set, encrypts, ps, weak,
		map[string]any{"kty": "EC", "crv": "P-256", "kid": "ec", "x": encode(point[1:33]), "y": encode(point[33:])},
		map[string]any{"kty": "EC", "crv": "P-256", "kid": "a", "x": encode(point[1:33]), "y": encode(point[33:])}, // as one of RSA
		rsaKey("", &older.PublicKey), rsaKey("", &p.rsa.PublicKey), rsaKey("", &older.PublicKey), rsaKey("", &older.PublicKey), rsaKey("", &strange.PublicKey), // one too many
		map[string]any{"kty": "EC", "crv": "P-256", "kid": "", "x": encode(point[1:33]), "y": encode(point[33:])},
		map[string]any{"kty": "EC", "crv": "P-256", "kid": "off", "x": encode(point[1:33]), "y": encode(point[1:33])},
		map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encode(public)},
		map[string]any{"kty": "oct", "kid": "oct", "k": "c2VjcmV0"})
	for _, test := range []struct {
		method jwt.SigningMethod
		kid    string
		key    crypto.Signer
		want   bool
	}{
		{jwt.SigningMethodES256, "ec", ec, true}, {jwt.SigningMethodEdDSA, "ed", ed, true}, {jwt.SigningMethodPS256, "ps", p.rsa, true},
		{jwt.SigningMethodRS256, "ps", p.rsa, false}, {jwt.SigningMethodRS256, "enc", p.rsa, false}, {jwt.SigningMethodRS256, "ec", p.rsa, false},
		{jwt.SigningMethodES256, "a", ec, true}, {jwt.SigningMethodRS256, "a", p.rsa, true}, {jwt.SigningMethodEdDSA, "a", ed, false},
		{jwt.SigningMethodRS256, "", p.rsa, true}, {jwt.SigningMethodRS256, "", older, true}, {jwt.SigningMethodRS256, "", strange, false}, {jwt.SigningMethodES256, "", ec, true},
		{jwt.SigningMethodES256, "off", ec, false}, {jwt.SigningMethodRS256, "weak", p.rsa, false}, {jwt.SigningMethodRS256, "oct", p.rsa, false},
	} {
		if err := p.check(p.token(test.method, test.kid, test.key, nil)); (err == nil) != test.want {
			t.Errorf("%s with key %s: %v", test.method.Alg(), test.kid, err)
		}
	}
}

// TestFetches: unknown keys cause few fetches, a new key is found, and keys count for a limited
// time where the issuer is away.
func TestFetches(t *testing.T) {
	p := newProvider(t)
	good := func() string {
		return p.token(jwt.SigningMethodRS256, "a", p.rsa, jwt.MapClaims{"exp": p.now.Add(9 * time.Hour).Unix()})
	}
	fetches := func(want int32) {
		t.Helper()
		if got := p.fetches.Load(); got != want {
			t.Fatalf("%d fetches, want %d", got, want)
		}
	}
	for range 5 {
		if err := p.check(good()); err != nil {
			t.Fatal(err)
		}
	}
	fetches(1)
	p.now = p.now.Add(pause)
	for range 5 {
		if err := p.check(p.token(jwt.SigningMethodRS256, "new", p.rsa, nil)); !fault.Is(err, fault.Denied) {
			t.Fatal(err)
		}
	}
	fetches(2)
	p.set = append(p.set, rsaKey("new", &p.rsa.PublicKey))
	p.now = p.now.Add(pause)
	if err := p.check(p.token(jwt.SigningMethodRS256, "new", p.rsa, nil)); err != nil {
		t.Fatal(err)
	}
	fetches(3)
	p.set = p.set[1:] // the issuer withdraws the old key
	p.now = p.now.Add(fresh)
	if err := p.check(good()); !fault.Is(err, fault.Denied) {
		t.Errorf("a withdrawn key: %v", err)
	}
	p.down = true
	p.now = p.now.Add(kept - time.Second)
	stays := p.token(jwt.SigningMethodRS256, "new", p.rsa, nil)
	if err := p.check(stays); err != nil {
		t.Errorf("while the issuer is away: %v", err)
	}
	p.now = p.now.Add(pause)
	if err := p.check(stays); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after too long: %v", err)
	}
}

// TestBadIssuers: what an issuer must not answer.
func TestBadIssuers(t *testing.T) {
	for name, change := range map[string]func(*provider){
		"answers 500":  func(p *provider) { p.down = true },
		"evil.example": func(p *provider) { p.calls = "https://evil.example" },
		"jwks_uri":     func(p *provider) { p.query = "#part" },
		"answers with": func(p *provider) { p.page = `{"keys":[],"x":"` + strings.Repeat("x", fetchBytes) + `"}` },
		"invalid char": func(p *provider) { p.page = "<html>" },
		"more than":    func(p *provider) { p.page = `{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}` },
	} {
		p := newProvider(t)
		change(p)
		token := p.token(jwt.SigningMethodRS256, "a", p.rsa, nil)
		for range 2 {
			if err := p.check(token); !fault.Is(err, fault.Unavailable) || !strings.Contains(fmt.Sprintf("%+v", errors.Unwrap(err)), name) {
				t.Errorf("%s: %v", name, err)
			}
			p.now = p.now.Add(pause)
		}
		p.End()
		if lines := p.log.String(); strings.Count(lines, "cannot be fetched") != 1 || !strings.Contains(lines, name) {
			t.Errorf("%s: the log says %q", name, lines)
		}
	}
	p := newProvider(t)
	p.query = "?p=policy"
	if err := p.check(p.token(jwt.SigningMethodRS256, "a", p.rsa, nil)); err != nil {
		t.Errorf("keys at a URL with a query: %v", err)
	}
	for url, want := range map[string]bool{"https://a.example": true, "http://localhost:1": true, "http://a.example": false, "https://u:p@a.example": false, "https://a.example?x": false, "a": false} {
		if err := CheckURL(url); (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestMailAddressesAreVerified: an address is a name only if the issuer has verified it.
func TestMailAddressesAreVerified(t *testing.T) {
	p := newProvider(t)
	i, err := New(Options{Issuer: p.URL, Audience: "meshgate", UserClaim: "email", Client: p.Client(), Now: func() time.Time { return p.now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	i.keys.patience = time.Minute
	t.Cleanup(i.End)
	for _, c := range []struct {
		verified any
		want     bool
	}{{true, true}, {"true", true}, {nil, false}, {false, false}, {"false", false}, {1, false}, {[]bool{true}, false}} {
		user, _, err := i.Check(t.Context(), p.token(jwt.SigningMethodRS256, "a", p.rsa, jwt.MapClaims{"email": "bob@x.example", "email_verified": c.verified}))
		if (err == nil) != c.want || (user == "bob@x.example") != c.want || !c.want && !fault.Is(err, fault.Denied) {
			t.Errorf("%v: %q %v", c.verified, user, err)
		}
	}
}

// stalled is an issuer that answers when it is let.
type stalled struct {
	http.RoundTripper
	held chan struct{} // nil while it answers at once
	asks atomic.Int32
}

func (s *stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asks.Add(1)
	if s.held != nil {
		select {
		case <-s.held:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	w := httptest.NewRecorder()
	doc := map[string]any{"issuer": "https://login.example", "jwks_uri": "https://login.example/keys", "keys": []any{}}
	_ = json.NewEncoder(w).Encode(doc)
	return w.Result(), nil
}

// TestSlowIssuers: an issuer that does not answer is asked once, holds nobody for longer than
// two seconds in all, and does not take away the keys that are known.
func TestSlowIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &stalled{held: make(chan struct{})}
		i, err := New(Options{Issuer: "https://login.example", Audience: "meshgate", UserClaim: "sub", Client: &http.Client{Transport: slow}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ask := func(kid string, want error, took time.Duration) {
			t.Helper()
			from := time.Now()
			if _, _, err := i.keys.get(t.Context(), kid, "RS256", nil); !errors.Is(err, want) || time.Since(from) != took {
				t.Errorf("%s: %v after %s, want %v after %s", kid, err, time.Since(from), want, took)
			}
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { ask("a", errUnavailable, 2*time.Second) })
		}
		all.Wait()
		ask("a", errUnavailable, 0) // the fetch still runs
		if n := slow.asks.Load(); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		i.keys.mu.Lock() // keys that are not fresh any more
		i.keys.last = &set{[]key{{id: "a", public: &rsa.PublicKey{}}}, begin.Add(-20 * time.Minute)}
		i.keys.mu.Unlock()
		ask("a", nil, 0)
		ask("b", errUnavailable, 0)  // it may be among those that are on their way
		time.Sleep(20 * time.Second) // the fetch has failed
		ask("a", nil, 2*time.Second)
		close(slow.held)
		synctest.Wait()
		ask("a", errUnknownKey, 0) // it was withdrawn
		i.End()
		ask("a", errUnknownKey, 0)
	})
}
