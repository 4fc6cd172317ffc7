// Package filter holds nothing but this text. Below it is what decides requests:
//
//	contract      what the filter and the control plane agree on
//	engine        decides a request by a chain; no I/O, no locks, no allocation
//	tokencache    what is known of tokens: memory, Redis, the control plane
//	redisconn     connections to Redis
//	host          token caches, programs and look-ups of one process
//	dynamicmodule the adapter for stock Envoy: a library in its process
//	golang        the adapter for Envoy's contrib build: a library for its filter for Go
//	extauthz      the adapter for any Envoy: a server that its ext_authz filter asks
//	filtertest    the table of behaviour that every adapter passes
//
// # Writing an adapter
//
// An adapter is a way into Envoy. It reads a request, calls, and applies the verdict:
//
//  1. Make one host.Host for the process. Give each listener's configuration to
//     AcquireSource and the chain of each route to AcquireProgram, and give both back when
//     Envoy does. A configuration that is refused must refuse its listener; a chain always
//     yields a program, which refuses if the chain is unusable.
//  2. Normalise the path as Envoy routed it, and read the headers that Program.Headers
//     names. Of a header that was sent twice, show the first value and set its bit in
//     Repeated; Envoy itself joins the values of some.
//  3. Where the adapter may wait, call Program.Settle, which asks for headers, the body
//     and look-ups in turn. On a worker of Envoy, call Host.Decide; on NeedHeaders,
//     NeedBody and Lookup get what is asked for without blocking (Host.Await bounds a
//     body, Host.Resolve a look-up), and decide again with the answers so far. Call
//     Host.GiveUp when a request goes while one of these is on its way.
//     An adapter that wants to give a verdict to later requests without asking has it proven
//     by Host.Prove, and looks before each use whether the proof still holds;
//     docs/adr/0025-verdicts-are-remembered.md says how the dynamic module does that.
//  4. Apply the verdict as the package comment of engine says. Remove the headers for
//     which contract.IsReserved holds, and the trailers for which contract.IsReservedTrailer
//     does: this is the one list of what clients may not say of themselves.
//  5. Refuse with 503 whenever something is missing: a handle, memory, a verdict without
//     an action. No path may lead past a decision.
//
// A new adapter is finished when it passes filtertest.Cases, in the form of the test of the
// adapters that are there.
package filter
