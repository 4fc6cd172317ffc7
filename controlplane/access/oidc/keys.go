package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// fetchTime and fetchBytes bound one answer of the issuer.
	fetchTime  = 10 * time.Second
	fetchBytes = 1 << 20
	// maxKeys bounds the keys of an issuer, and maxAlike those of one type with one id, and those
	// that are tried for a token without an id: they are tried one after the other.
	maxKeys  = 100
	maxAlike = 4
	// fresh is how long keys are used before they are fetched again. kept is how long they
	// are used if that fails: a key that the issuer has withdrawn counts no longer than that.
	fresh = 10 * time.Minute
	kept  = time.Hour
	// pause is the shortest time between two fetches, whatever tokens arrive.
	pause = 10 * time.Second
	// patience is that of issuers: see [keys].
	patience = 2 * time.Second
	// minBits is the least size of RSA keys (RFC 7518 3.3).
	minBits = 2048
)

var (
	errUnavailable = errors.New("the keys of the issuer cannot be fetched")
	errUnknownKey  = errors.New("the issuer has no key that fits the token")
)

// key verifies signatures, with one algorithm if it names one. Keys of different types may have one id (RFC
// 7517 section 4.5), and whoever has several keys without ids gives them the same one.
type key struct {
	id        string
	public    crypto.PublicKey
	algorithm string
}

// fits reports whether a token of an algorithm may be signed with a key.
func (k key) fits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(algorithm, "ES")
	}
	return algorithm == "EdDSA"
}

// set are the keys that one fetch brought. It never changes.
type set struct {
	keys    []key
	fetched time.Time
}

// within reports whether a set is younger than an age. One from the future may be of any age.
func (s *set) within(limit time.Duration, now time.Time) bool {
	age := now.Sub(s.fetched)
	return age < limit && age >= 0
}

// fitting returns the keys that may have signed a token with an id and an algorithm. A token need not name a
// key where few fit (OpenID Connect Core 1.0 section 10.1); where more do, it means one without an id.
func (s *set) fitting(kid, algorithm string) []key {
	var all, named []key
	for _, k := range s.keys {
		if !k.fits(algorithm) {
			continue
		}
		if all = append(all, k); k.id == kid {
			named = append(named, k)
		}
	}
	if kid == "" && len(all) <= maxAlike {
		return all
	}
	return named
}

// keys are the keys of an issuer. They are fetched by one goroutine at a time, for nobody in
// particular. Callers that need what is being fetched wait for it, but not for long: an issuer
// that is slow must not hold all who show a token. Tokens of fresh keys never wait.
type keys struct {
	// issuer is the URL without a slash at its end; named is how tokens name it.
	issuer, named string
	client        *http.Client
	now           func() time.Time
	log           *slog.Logger
	// patience is how long after its beginning requests wait for a fetch.
	patience time.Duration
	// ctx is the lifetime of fetches; end ends it. work is the one that runs.
	ctx  context.Context //nolint:containedctx // that of goroutines which no request owns
	end  context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	last    *set  // of the last fetch that was well; nil before
	failure error // of the last fetch, nil if that was well
	tried   time.Time
	running chan struct{} // closed when the fetch ends; nil if there is none
	began   time.Time     // when the running one did, by the clock of timers
}

// close ends the fetch that runs. None begins after it: get looks and begins under the same lock.
func (k *keys) close() {
	k.mu.Lock()
	k.end()
	k.mu.Unlock()
	k.work.Wait()
}

// get returns the keys that may have signed a token with an id and an algorithm, and their set, which is not
// the one that was tried before. It fetches if none of a fresh set may have, but not within the pause.
func (k *keys) get(ctx context.Context, kid, algorithm string, tried *set) ([]key, *set, error) {
	k.mu.Lock()
	if s := k.last; s != nil && s != tried && s.within(fresh, k.now()) {
		if found := s.fitting(kid, algorithm); len(found) > 0 {
			k.mu.Unlock()
			return found, s, nil
		}
	}
	if since := k.now().Sub(k.tried); k.running == nil && k.ctx.Err() == nil && (k.tried.IsZero() || since >= pause || since < 0) {
		k.tried, k.began, k.running = k.now(), time.Now(), make(chan struct{})
		k.work.Go(k.refresh)
	}
	running, left := k.running, time.Until(k.began.Add(k.patience))
	k.mu.Unlock()
	if running != nil && left > 0 {
		up := time.NewTimer(left)
		defer up.Stop()
		select {
		case <-running:
		case <-up.C:
		case <-ctx.Done():
			return nil, nil, errUnavailable
		}
	}
	return k.known(kid, algorithm, tried)
}

// refresh fetches the keys. Why that fails is logged when it begins to.
func (k *keys) refresh() {
	found, err := k.fetch(k.ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		if k.last = (&set{found, k.now()}); k.failure != nil {
			k.log.Info("the keys of the OpenID Connect issuer can be fetched again", "issuer", k.named)
		}
	case k.failure == nil && k.ctx.Err() == nil:
		k.log.Warn("the keys of the OpenID Connect issuer cannot be fetched: its tokens are refused once those known are an hour old", "issuer", k.named, "error", err)
	}
	k.failure = err
	close(k.running)
	k.running = nil
}

// known returns what get does of a set that is recent enough. A key that is not there may be among those
// that cannot be fetched now: then nobody can judge the token.
func (k *keys) known(kid, algorithm string, tried *set) ([]key, *set, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	recent := k.last != nil && k.last.within(kept, k.now())
	if recent && k.last != tried {
		if found := k.last.fitting(kid, algorithm); len(found) > 0 {
			return found, k.last, nil
		}
	}
	switch {
	case k.failure != nil:
		return nil, nil, fmt.Errorf("%w: %w", errUnavailable, k.failure)
	case !recent || k.running != nil:
		return nil, nil, errUnavailable
	}
	return nil, nil, errUnknownKey
}

// fetch reads the metadata of the issuer (OpenID Connect Discovery 1.0 section 4), and its keys
// (RFC 7517).
func (k *keys) fetch(ctx context.Context) ([]key, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := k.read(ctx, k.issuer+"/.well-known/openid-configuration", &about); err != nil {
		return nil, err
	}
	if about.Issuer != k.named {
		return nil, fmt.Errorf("the issuer calls itself %q", about.Issuer)
	}
	if err := checkURL(about.Keys, true); err != nil {
		return nil, fmt.Errorf("jwks_uri %w", err)
	}
	var all struct {
		Keys []webKey `json:"keys"`
	}
	if err := k.read(ctx, about.Keys, &all); err != nil {
		return nil, err
	}
	if len(all.Keys) > maxKeys {
		return nil, fmt.Errorf("more than %d keys", maxKeys)
	}
	var found []key
	alike, unused := map[[2]string]int{}, 0
	for _, w := range all.Keys {
		public, err := w.public()
		if err != nil || w.Use != "" && w.Use != "sig" {
			continue // it is for something else
		}
		if alike[[2]string{w.ID, w.Type}]++; alike[[2]string{w.ID, w.Type}] > maxAlike {
			unused++
			continue
		}
		found = append(found, key{w.ID, public, w.Algorithm})
	}
	if unused > 0 {
		k.log.Warn("keys of the OpenID Connect issuer are not used: too many of one type have one id", "issuer", k.named, "keys", unused, "used_of_one_id", maxAlike)
	}
	return found, nil
}

func (k *keys) read(ctx context.Context, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	a, err := k.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", url, a.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(a.Body, fetchBytes+1))
	if err != nil {
		return err
	}
	if len(raw) > fetchBytes {
		return fmt.Errorf("%s answers with more than %d bytes", url, fetchBytes)
	}
	return json.Unmarshal(raw, into)
}

// webKey is a public key (RFC 7517, RFC 7518 section 6, RFC 8037).
type webKey struct {
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	N         string `json:"n"`
	E         string `json:"e"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

func (w *webKey) public() (crypto.PublicKey, error) {
	switch w.Type {
	case "RSA":
		n, e := number(w.N), number(w.E)
		if n.BitLen() < minBits || n.BitLen() > 16384 || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 || e.Bit(0) == 0 {
			return nil, errors.New("the key is too weak")
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
	case "EC":
		return w.elliptic()
	case "OKP":
		x, err := base64.RawURLEncoding.DecodeString(w.X)
		if err != nil || w.Curve != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return nil, errors.New("the key is no Ed25519 key")
		}
		return ed25519.PublicKey(x), nil
	}
	return nil, errors.New("the key is of another type")
}

func (w *webKey) elliptic() (crypto.PublicKey, error) {
	curve, ok := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[w.Curve]
	if !ok {
		return nil, errors.New("the key is on another curve")
	}
	x, errX := base64.RawURLEncoding.DecodeString(w.X)
	y, errY := base64.RawURLEncoding.DecodeString(w.Y)
	if size := (curve.Params().BitSize + 7) / 8; errX != nil || errY != nil || len(x) != size || len(y) != size {
		return nil, errors.New("the key is no point")
	}
	return ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...)) // refuses what is not on the curve
}

// number decodes a number; it is 0 if it is none.
func number(text string) *big.Int {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(raw)
}
