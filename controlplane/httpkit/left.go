package httpkit

import (
	"context"
	"errors"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// left reports whether a request ended with an error because its client has left. Anybody can
// do that at any moment, so it is no failure of the server.
func left(r *http.Request, err error) bool {
	return r.Context().Err() != nil && errors.Is(err, context.Canceled)
}

// Unawaited is an error as it is answered. That of a client who has left becomes
// [fault.Unavailable]. A client who has only said that it sends no more hears the answer.
func Unawaited(r *http.Request, err error) error {
	if left(r, err) {
		return fault.Wrap(fault.Unavailable, err, "the client has left")
	}
	return err
}
