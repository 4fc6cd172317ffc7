package identity

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Withdrawal is what the rotation of compromised keys has done.
type Withdrawal struct {
	// Serial is the key that signs from now on.
	Serial string
	// Withdrawn are the serials of those that counted before, oldest first. All of them
	// go, because agents exchange the tokens of one key for tokens of the next: what was
	// forged with one may live on under any that came later.
	Withdrawn []string
}

// withdrawnKey is what stays of a compromised key: its public half, by which its tokens
// are known, and when it was withdrawn. Its serial is never given to another key.
type withdrawnKey struct {
	serial string
	key    *rsa.PublicKey
	at     time.Time
}

// refuse judges a token of the key; verified is the error of its verification. Who made
// it up without the key hears what anybody hears of a key that does not exist.
func (w *withdrawnKey) refuse(what, token string, claims *jwt.RegisteredClaims, verified error) error {
	if errors.Is(verified, jwt.ErrTokenSignatureInvalid) || errors.Is(verified, jwt.ErrTokenUnverifiable) {
		return tokenFault(what, token, claims, verified)
	}
	return fault.New(fault.Denied, "the %s token was signed by key %s, which was withdrawn at %s because it is compromised: the node needs a new token",
		what, w.serial, w.at.UTC().Format(time.RFC3339))
}

// errWithdrawn is for a key of which nothing is known but that it was withdrawn.
var errWithdrawn = fault.New(fault.Denied, "the key was withdrawn")

// publicPEM encodes what stays of a compromised key.
func publicPEM(key *rsa.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// parsePublic reads what [publicPEM] has made.
func parsePublic(text []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is no public key")
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("is %T, not RSA", parsed)
	}
	return key, nil
}

// gatewayType is the type that the claims of node tokens have.
type gatewayType struct {
	jwt.RegisteredClaims
	Type string `json:"Type"`
}

// ClaimsGateway reports whether a token says that it is of a gateway; it is not checked.
// Where both kinds of tokens are taken, it decides whose refusal is told: the other one
// is about a token that nobody has shown.
func ClaimsGateway(token string) bool {
	var c gatewayType
	_, _, err := jwt.NewParser().ParseUnverified(strings.TrimPrefix(token, "Bearer "), &c)
	return err == nil && c.Type == typeGateway
}
