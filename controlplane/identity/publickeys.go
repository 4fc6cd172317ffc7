package identity

import (
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TokenKind is a kind of tokens.
type TokenKind string

// The kinds of tokens. Those of a mesh belong to proxies; the others belong to the control
// plane.
const (
	DataplaneToken   TokenKind = "dataplane"
	UserToken        TokenKind = "user"
	ZoneToken        TokenKind = "zone"
	ZoneIngressToken TokenKind = "zone-ingress"
	// GatewayToken tokens are signed with keys that are no secrets of the API; see [Tokens].
	GatewayToken TokenKind = "gateway"
)

// PublicKey verifies tokens that were issued elsewhere: whoever holds the private key issues
// them, and this control plane never sees it.
type PublicKey struct {
	For TokenKind
	// Mesh is the mesh of dataplane tokens, and empty for others.
	Mesh string
	// ID is the kid in the tokens. It is no number, because these are the ids of stored keys.
	ID  string
	Key *rsa.PublicKey
	// Users and Groups are the names that tokens of users may have; nil means all but those of
	// the system.
	Users, Groups []string
}

// MayName returns a Denied fault if tokens of the key may not name this user with these groups.
func (k *PublicKey) MayName(user string, groups []string) error {
	if !listed(k.Users, user) {
		return fault.New(fault.Denied, "the key %s may not sign tokens of the user %q", k.ID, user)
	}
	for _, g := range groups {
		if !listed(k.Groups, g) {
			return fault.New(fault.Denied, "the key %s may not sign tokens of the group %q", k.ID, g)
		}
	}
	return nil
}

func listed(names []string, name string) bool {
	if names == nil {
		return !strings.HasPrefix(name, model.PrefixSystem)
	}
	return slices.Contains(names, name)
}

// publicName names a public key: by the series whose tokens it verifies, and its id.
type publicName struct{ series, kid string }

func named(keys []PublicKey) map[publicName]*rsa.PublicKey {
	out := map[publicName]*rsa.PublicKey{}
	for _, k := range keys {
		s := ofMesh(k.Mesh)
		if k.For != DataplaneToken {
			s = k.For.series()
		}
		out[publicName{s.key, k.ID}] = k.Key
	}
	return out
}

// CheckPublicKeys refuses keys that contradict each other. One key never serves two kinds of
// tokens: the name of a proxy in a token would make its holder a user of that name.
func CheckPublicKeys(keys []PublicKey) error {
	var vs []fault.Violation
	bad := func(i int, field, format string, args ...any) {
		vs = append(vs, fault.Violation{Path: fmt.Sprintf("[%d].%s", i, field), Message: fmt.Sprintf(format, args...)})
	}
	for i, k := range keys {
		switch k.For {
		case DataplaneToken:
			if k.Mesh == "" {
				bad(i, "mesh", "is needed for dataplane tokens")
			}
		case UserToken, ZoneToken, ZoneIngressToken:
			if k.Mesh != "" {
				bad(i, "mesh", "does not belong to %s tokens", k.For)
			}
		case GatewayToken:
			bad(i, "for", "must be %s, %s, %s or %s", DataplaneToken, UserToken, ZoneToken, ZoneIngressToken)
		default:
			bad(i, "for", "must be %s, %s, %s or %s", DataplaneToken, UserToken, ZoneToken, ZoneIngressToken)
		}
		if k.For != UserToken && (k.Users != nil || k.Groups != nil) {
			bad(i, "users", "and groups belong to user tokens")
		}
		if err := CheckKeyID(k.ID); err != nil {
			bad(i, "kid", "%v", err)
		}
		for j, other := range keys[:i] {
			switch {
			case k.Key.Equal(other.Key):
				bad(i, "keyFile", "holds the same key as [%d]: each key is for one purpose", j)
			case k.For == other.For && k.Mesh == other.Mesh && k.ID == other.ID:
				bad(i, "kid", "is also that of [%d]", j)
			}
		}
	}
	return fault.Violated(vs)
}

// CheckKeyID checks the id of a key that is kept elsewhere.
func CheckKeyID(kid string) error {
	if kid == "" || len(kid) > maxKeyID {
		return fmt.Errorf("must have 1 to %d characters", maxKeyID)
	}
	if serialOf(kid) != 0 {
		return fmt.Errorf("must not be a number, because stored keys have numbers")
	}
	return nil
}

// maxKeyID bounds the ids of keys.
const maxKeyID = 128

// ParsePublicKey reads an RSA public key in PEM (PKIX).
func ParsePublicKey(text []byte) (*rsa.PublicKey, error) {
	key, err := parsePublic(text)
	if err != nil {
		return nil, err
	}
	if bits := key.N.BitLen(); bits < minSigningBits {
		return nil, fmt.Errorf("has %d bits, less than the %d that RS256 demands", bits, minSigningBits)
	}
	return key, nil
}
