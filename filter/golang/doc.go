// Package golang is the filter for Envoy's contrib build, through the official interface for
// Go of its filter envoy.filters.http.golang. Package plugin below makes a
// library of it.
//
// # Shape
//
// A request whose token is known is decided on Envoy's worker thread. A request that needs a
// look-up goes on in a goroutine of the host, which waits, decides, and makes the worker
// continue. The body of a request is read if the decision asks for it. Envoy then shows it in
// pieces, which count against a budget.
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
// and destroys the result while requests still use it. So each request holds its configuration,
// and the end of the last use gives its handles back.
//
// # Failures
//
// The parser, the entries of a stream, its goroutine and the front recover panics, log them and refuse.
// The factory does nothing that could panic, because Envoy's side does not recover there.
// Every call of Envoy about a stream that is gone, or going, panics. This is no fault and is
// not logged. A pipe without a reader does not end the process, see [host.Prepare].
//
// # What Envoy's filter does not do
//
// If no more pieces of a body come, only Envoy's own timeouts end the request. A request with
// trailers and without a body does not go on if its token had to be looked up and the trailers
// came before the answer. It ends by a timeout.
package golang
