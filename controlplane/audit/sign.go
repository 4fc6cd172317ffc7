package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
)

// Signer signs lines. It is safe for concurrent use.
type Signer struct {
	keys func() []ed25519.PrivateKey
}

// NewSigner returns the signer of some keys, which may be others at each signature: the first one signs, and all
// are published. There is always one.
func NewSigner(keys func() []ed25519.PrivateKey) *Signer { return &Signer{keys} }

// Sign returns a signature in base64url without padding.
func (s *Signer) Sign(line []byte) string {
	return base64.RawURLEncoding.EncodeToString(s.signature(line))
}

func (s *Signer) signature(line []byte) []byte { return ed25519.Sign(s.keys()[0], line) }

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

// Keys returns the keys that verify what s signs or has signed, the one that signs first.
func (s *Signer) Keys() Keys {
	set := Keys{Keys: []Key{}}
	for _, key := range s.keys() {
		set.Keys = append(set.Keys, KeyOf(key.Public().(ed25519.PublicKey)))
	}
	return set
}

// KeyOf describes a public key as it is published.
func KeyOf(public ed25519.PublicKey) Key {
	return Key{Type: "OKP", Alg: "EdDSA", Curve: "Ed25519", ID: thumbprint(public), X: base64.RawURLEncoding.EncodeToString(public)}
}

// thumbprint names a key by what it is (RFC 7638, RFC 8037 section 2).
func thumbprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(public) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
