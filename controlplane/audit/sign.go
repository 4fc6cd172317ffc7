package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// Signer signs lines. It is safe for concurrent use.
type Signer struct {
	key ed25519.PrivateKey
	id  string
}

// NewSigner returns the signer of a seed of [ed25519.SeedSize] bytes.
func NewSigner(seed []byte) (*Signer, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the seed of a signing key has %d bytes and needs %d", len(seed), ed25519.SeedSize)
	}
	key := ed25519.NewKeyFromSeed(seed)
	return &Signer{key: key, id: thumbprint(key.Public().(ed25519.PublicKey))}, nil
}

// Sign returns a signature in base64url without padding.
func (s *Signer) Sign(line []byte) string {
	return base64.RawURLEncoding.EncodeToString(s.signature(line))
}

func (s *Signer) signature(line []byte) []byte { return ed25519.Sign(s.key, line) }

// Key is a public key as a JSON Web Key (RFC 8037).
type Key struct {
	Type  string `json:"kty"`
	Alg   string `json:"alg"`
	Curve string `json:"crv"`
	ID    string `json:"kid"`
	X     string `json:"x"`
}

// Keys is a set of them (RFC 7517, section 5).
type Keys struct {
	Keys []Key `json:"keys"`
}

// Key returns the key that verifies what s signs.
func (s *Signer) Key() Key {
	public := s.key.Public().(ed25519.PublicKey)
	return Key{Type: "OKP", Alg: "EdDSA", Curve: "Ed25519", ID: s.id, X: base64.RawURLEncoding.EncodeToString(public)}
}

// thumbprint names a key by what it is (RFC 7638, RFC 8037 section 2).
func thumbprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(public) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
