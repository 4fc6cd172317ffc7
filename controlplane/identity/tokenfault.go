package identity

import (
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// tokenFault tells the client what is wrong with a token that did not verify. what is the
// kind of token. It says that a token has expired only if the token is genuine, because
// signatures are checked first. The same token always gets the same text: refusals are
// counted by their text, and a text with the current time in it would count as a new refusal
// at each attempt of an agent.
func tokenFault(what, token string, claims *jwt.RegisteredClaims, err error) error {
	denied := func(format string, args ...any) error {
		return fault.Wrap(fault.Denied, err, "the "+what+" token "+format, args...)
	}
	switch {
	case token == "":
		return denied("is empty")
	case errors.Is(err, jwt.ErrTokenMalformed):
		return denied("is not a token")
	case errors.Is(err, jwt.ErrTokenUnverifiable), errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return denied("was signed by a key that this control plane does not know")
	case errors.Is(err, jwt.ErrTokenExpired) && claims.ExpiresAt != nil:
		return denied("expired at %s", claims.ExpiresAt.UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrTokenNotValidYet) && claims.NotBefore != nil:
		return denied("is good from %s on, which is later than it is here", claims.NotBefore.UTC().Format(time.RFC3339))
	}
	return denied("is not valid")
}
