package identity

import (
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// tokenFault says what is wrong with a token that did not verify, to whoever shows it.
// That it has ended is only told of one that is genuine: signatures are looked at
// first. what is the kind of token. The same token is told the same each time: refusals
// count as one that goes on by their text, and one that had the time in it would be a new
// one at each attempt of an agent.
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
