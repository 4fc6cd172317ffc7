package httpkit

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"time"
)

// Served is what one request came to, in words of which there are few: nothing of
// it is chosen by the client.
type Served struct {
	// Server is the name of the server.
	Server string
	// Method is a method of RFC 9110 or PATCH; any other one is [OtherMethod].
	Method string
	// Pattern is that of the endpoint; empty where none was found.
	Pattern string
	Status  int
	Took    time.Duration
	// Panicked says that the handler ended in a panic, which was recovered.
	Panicked bool
}

// OtherMethod stands for all methods that are not known, so that no client chooses
// how many there are.
const OtherMethod = "_OTHER"

// Meter is told of each request at its end. Connections that a handler took over
// are no requests any more. It must not block.
type Meter interface {
	Served(Served)
}

var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// BoundedMethod is a method in words of which there are few.
func BoundedMethod(method string) string {
	if slices.Contains(knownMethods, method) {
		return method
	}
	return OtherMethod
}

// Named returns a handler whose requests have a pattern, for those that no router of
// this package dispatches.
func Named(pattern string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		EntryOf(r.Context()).Pattern = pattern
		h.ServeHTTP(w, r)
	})
}

// Hijack implements http.Hijacker. A connection that lives for days would say
// nothing about how long requests take.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	r.taken = r.taken || err == nil
	return c, rw, err
}
