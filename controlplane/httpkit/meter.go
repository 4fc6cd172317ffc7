package httpkit

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"time"
)

// Served describes one request with a small set of values. The client can choose none of
// them freely.
type Served struct {
	// Server is the name of the server.
	Server string
	// Method is a method of RFC 9110, or PATCH. For any other method it is [OtherMethod].
	Method string
	// Pattern is that of the endpoint, or "" if there is none.
	Pattern string
	Status  int
	Took    time.Duration
	// Panicked says that the handler panicked and was recovered.
	Panicked bool
}

// OtherMethod stands for all unknown methods, so that no client can create new values.
const OtherMethod = "_OTHER"

// Meter is told about each request when it ends, except for connections that a handler took
// over. It must not block.
type Meter interface {
	Served(Served)
}

var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// BoundedMethod returns a method, or [OtherMethod] for an unknown one.
func BoundedMethod(method string) string {
	if slices.Contains(knownMethods, method) {
		return method
	}
	return OtherMethod
}

// Named returns a handler that sets the pattern of its requests. It is for handlers that no
// router of this package serves.
func Named(pattern string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		EntryOf(r.Context()).Pattern = pattern
		h.ServeHTTP(w, r)
	})
}

// Hijack implements http.Hijacker. It marks the connection as taken, because a connection
// that lives for days would distort how long requests take.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	r.taken = r.taken || err == nil
	return c, rw, err
}
