// Command dynamicmodule is the filter as a dynamic module of stock Envoy: a
// shared library, libmeshgate.so, that Envoy loads under the name "meshgate".
//
// # Shape
//
// Envoy calls C functions, its hooks. All of them are written in C (the front:
// abi*.h declare what Envoy offers and expects, hooks.c answers what needs no
// work, config.c, request.c, body.c and apply.c do the rest), and the front
// enters Go once per request, to decide. The official Go SDK enters Go for every
// phase of every request and keeps Go objects per stream; measured in a real
// Envoy it costs more than twice as much.
//
// The front reads the path and the headers that every decision of the route's
// program wants, calls [host.Host.Decide] through meshgateDecide with a
// result on its own stack, and edits the request. The few requests that need more
// enter Go again: with the other headers; with the body, for which the front
// stops the headers and lets the body hook collect; or with what the token cache
// has found, to which it hands a token's hash and which answers through Envoy's
// dispatcher. No worker ever waits, and a request may do all of this, twice.
//
// # Ownership
//
// C holds no Go pointers, and Go none of Envoy's: programs and token caches are
// named by handles into tables, views into Envoy's memory end with the call. A
// look-up is a C struct with two owners, see lookup.h. A stream may end inside any
// call that answers it, so nothing of it is touched afterwards
// (docs/adr/0012-streams-that-go.md); testdata/host is a host that holds the front
// to that under gcc's sanitizers.
//
// # Failures
//
// Every entry into Go and every goroutine recovers panics and then refuses with
// 503. A chain that does not parse refuses its route and never the whole
// update. Nothing writes to the process's standard streams: a Go write to a pipe
// whose reader has gone would end Envoy, so logs go through Envoy and SIGPIPE is
// ignored.
package main

//go:generate sh -c "go run reserved_gen.go > reserved_table.h"

// main is demanded by -buildmode=c-shared and never runs.
func main() {}
