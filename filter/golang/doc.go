// Package golang is the filter for Envoy's contrib build, through the official interface for
// Go of its filter envoy.filters.http.golang. Package plugin below makes a
// library of it.
//
// # Shape
//
// A request whose token is known is decided on Envoy's worker thread. One that needs a
// look-up goes on in a goroutine of the host, which waits, decides, and has the worker
// continue. The body of a request is read where the decision asks for it: Envoy then
// shows it in pieces, which count against a budget.
//
// # The front
//
// The fast build of the library has a front in C (folder front) before the official
// interface. It asks [Front] about a request, and lets it pass itself if what is known is enough
// for that: without a body, a look-up or an answer of its own. It hands all others on before
// anything is done about them, and the code above decides them from the start.
// docs/adr/0005-hot-path.md says why.
//
// # Configurations
//
// Envoy merges the configuration of a listener with those of a virtual host and of a route,
// and destroys the result while requests still use it. So each request holds its
// configuration, and the last one gives back what it stands for.
//
// # Failures
//
// The parser, the entries of a stream, its goroutine and the front recover panics, log them and refuse.
// The factory does nothing that could panic, because Envoy's side does not recover there.
// Whatever is called about a stream that is gone, or going, panics: that is no fault, and is not
// logged.
// A pipe without a reader ends nothing, see [host.Prepare].
//
// # What Envoy's filter does not do
//
// Nothing ends a body of which no piece comes any more but Envoy's own timeouts. A
// request with trailers and without a body, whose token had to be looked up, does not go on
// if the trailers came before the answer: it ends by a timeout.
package golang
