// Package filtertest holds the behaviour table that every adapter of the engine must pass,
// the fakes to run it in process, and the check of the outcome.
//
// A [Case] is data that can be expressed in HTTP: the configuration bytes of a route, tokens
// that an authority knows, a request, and an outcome. The engine runs the table through
// [Stream]. A test with a real Envoy gives each case a virtual host named after it, sends
// the request, fills an [Observed] from what the client and the echoing upstreams saw, and
// calls [Case.Check] too.
package filtertest
