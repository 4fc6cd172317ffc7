package identity

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// OfflineKey signs tokens without a control plane, which needs only the public half of the
// key; see [PublicKey].
type OfflineKey struct{ by signer }

// NewOfflineKey reads an RSA key in PEM, PKCS #1 or PKCS #8. kid is the id by which control
// planes find its public half.
func NewOfflineKey(kid string, text []byte) (*OfflineKey, error) {
	if err := CheckKeyID(kid); err != nil {
		return nil, fault.Violated([]fault.Violation{{Path: "kid", Message: err.Error()}})
	}
	key, err := parseRSA(text)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the signing key %v", err)
	}
	return &OfflineKey{signer{kid, key}}, nil
}

// Dataplane issues the token of a proxy.
func (k *OfflineKey) Dataplane(r DataplaneTokenRequest, now time.Time) (string, error) {
	return k.issue(&r, now)
}

// User issues the token of a user.
func (k *OfflineKey) User(r UserTokenRequest, now time.Time) (string, error) { return k.issue(&r, now) }

// Zone issues the token of a zone.
func (k *OfflineKey) Zone(r ZoneTokenRequest, now time.Time) (string, error) { return k.issue(&r, now) }

func (k *OfflineKey) issue(r request, now time.Time) (string, error) {
	c, err := r.claims(now)
	if err != nil {
		return "", err
	}
	return k.by.signShort(c, r.long())
}

// Public returns the public half, in PEM.
func (k *OfflineKey) Public() ([]byte, error) { return publicPEM(&k.by.key.PublicKey) }
