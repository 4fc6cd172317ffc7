package httpkit

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// left reports whether a request ended with an error because its client has left. Anybody can
// do that at any moment, so it is no failure of the server.
func left(r *http.Request, err error) bool {
	return r.Context().Err() != nil && errors.Is(err, context.Canceled)
}

// Later tells in an answer when to ask again, if its error says so. Every API calls it where its errors become
// answers: clients that are told nothing ask again at once, or never.
func Later(w http.ResponseWriter, err error) {
	if after := fault.AfterOf(err); after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
}

// Unawaited is an error as it is answered. That of a client who has left becomes
// [fault.Unavailable]. A client who has only said that it sends no more hears the answer.
func Unawaited(r *http.Request, err error) error {
	if left(r, err) {
		return fault.Wrap(fault.Unavailable, err, "the client has left")
	}
	return err
}
