// Package filtertest holds the behaviour table that every adapter of the engine
// must pass, the fakes to run it in process, and the check of what came out.
//
// A [Case] is data and says nothing that HTTP cannot say: per-route configuration
// bytes, tokens that an authority knows, a request, an outcome. The engine runs
// the table through [Stream]; a test with a real Envoy gives each case a virtual
// host named after it, sends the request, fills an [Observed] from what the
// client and the echoing upstreams saw, and calls [Case.Check] too.
package filtertest
