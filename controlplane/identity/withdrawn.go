package identity

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Withdrawal is the result of a rotation of compromised keys.
type Withdrawal struct {
	// Serial is the key that signs from now on.
	Serial string
	// Withdrawn are the serials of the keys that counted before, oldest first. All of them
	// are withdrawn, because agents exchange the tokens of one key for tokens of the next: a
	// token forged with one key may live on under any later key. Nobody knows which of the keys of the
	// audit log the thief of one has, either.
	Withdrawn []string
}

// withdrawnKey is what remains of a compromised key: its public half, which identifies its
// tokens, and when it was withdrawn. Its serial is never given to another key.
type withdrawnKey struct {
	serial string
	key    *rsa.PublicKey
	at     time.Time
}

// refuse judges a token of the key. verified is the error of its verification. A client that
// made up the token without the key gets the same answer as for a key that does not exist.
func (w *withdrawnKey) refuse(what, token string, claims *jwt.RegisteredClaims, verified error) error {
	if errors.Is(verified, jwt.ErrTokenSignatureInvalid) || errors.Is(verified, jwt.ErrTokenUnverifiable) {
		return tokenFault(what, token, claims, verified)
	}
	holder := "the node"
	if what == tokenUser || what == tokenZone {
		holder = "its holder"
	}
	return fault.New(fault.Denied, "the %s token was signed by key %s, which was withdrawn at %s because it is compromised: %s needs a new token",
		what, w.serial, w.at.UTC().Format(time.RFC3339), holder)
}

// errWithdrawn is for a key about which only its withdrawal is known.
var errWithdrawn = fault.New(fault.Denied, "the key was withdrawn")

// publicPEM encodes what remains of a compromised key.
func publicPEM(key any) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	return pemtext.Encode("PUBLIC KEY", der), nil
}

// parsePublic reads what [publicPEM] has made.
func parsePublic(text []byte) (*rsa.PublicKey, error) {
	block := pemtext.First(text)
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

// gatewayType holds the type claim of node tokens.
type gatewayType struct {
	jwt.RegisteredClaims
	Type string `json:"Type"`
}

// ClaimsGateway reports whether a token claims to belong to a gateway. It does not check the
// token. Where both kinds of tokens are accepted, it decides which of the two refusals the
// client gets, because the other one is about a kind of token that nobody has shown.
func ClaimsGateway(token string) bool {
	var c gatewayType
	_, _, err := jwt.NewParser().ParseUnverified(strings.TrimPrefix(token, "Bearer "), &c)
	return err == nil && c.Type == typeGateway
}
