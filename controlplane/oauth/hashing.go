package oauth

import (
	"context"
	"errors"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/turns"
)

// maxWaiting bounds the requests that wait for their secret to be hashed. Each hash takes
// some milliseconds, so the last of them waits for about a second.
const maxWaiting = 128

// hashing bounds how many secrets are hashed at the same time. Each costs ten thousand rounds
// of PBKDF2, and everybody can cause it.
type hashing struct{ *turns.Queue }

func newHashing() hashing { return hashing{turns.New(maxWaiting)} }

// fits reports whether a secret is one of the two of an application. It returns [errBusy] if
// too many requests wait already, and Unavailable if ctx ends.
func (h hashing) fits(ctx context.Context, app *gateway.Application, secret string) (bool, error) {
	first, _ := gateway.Hashed(app.ClientSecret)
	second, _ := gateway.Hashed(app.SecondarySecret)
	if first || second {
		err := h.Enter(ctx)
		if errors.Is(err, turns.ErrFull) {
			return false, errBusy
		}
		if err != nil {
			return false, err
		}
		defer h.Leave()
	}
	return gateway.VerifySecret(app.ClientSecret, secret) || gateway.VerifySecret(app.SecondarySecret, secret), nil
}
