// Command dynamicmodule is the filter as a dynamic module of stock Envoy: a
// shared library, libmeshgate.so, that Envoy loads under the name "meshgate".
//
// # Shape
//
// Envoy calls C functions, its hooks. All of them are written in C (the front): abi*.h
// declare what Envoy offers and expects, hooks.c holds the hooks that do nothing, and
// config.c, request.c, body.c and apply.c do the rest. The front enters Go at most once for
// most requests, to decide. The official Go SDK enters Go for every phase of every request
// and keeps Go objects per stream; measured in a real Envoy it costs more than twice as much.
//
// The front reads the path and the headers that every decision of the route's program needs,
// calls [host.Host.Decide] through meshgateDecide with a result on its own stack, and edits
// the request. The few requests that need more enter Go again: with the other headers; with
// the body, for which the front stops the headers and lets the body hook collect; or with
// the answer of the token cache. A request that repeats one whose verdict Go has proven does
// not enter Go at all while the proof holds (repeat.c,
// docs/adr/0025-verdicts-are-remembered.md). For an answer of the token cache the front
// hands a token's hash to it, and the cache answers through Envoy's dispatcher. No worker
// ever waits. A request may do all of this twice.
//
// # Ownership
//
// C holds no Go pointers, and Go keeps no pointers into Envoy: programs and token caches are
// named by handles into tables, and views into Envoy's memory end with the call. A look-up
// is a C struct with two owners, see lookup.h. A stream may end inside any call that answers
// it, so nothing of it is touched afterwards (docs/adr/0012-streams-that-go.md).
// testdata/host is a host that enforces this on the front under gcc's sanitizers.
//
// # Failures
//
// Every entry into Go and every goroutine recovers panics and then refuses with 503. A chain
// that does not parse makes its route refuse, but never fails the whole update. Nothing
// writes to the process's standard streams, because a Go write to a pipe whose reader has
// gone would end Envoy. So logs go through Envoy, and SIGPIPE is ignored
// (see [host.Prepare]).
package main

//go:generate sh -c "go run reserved_gen.go > reserved_table.h"
//go:generate sh -c "go run refusals_gen.go > refusals_table.h"

// main is required by -buildmode=c-shared and never runs.
func main() {}
