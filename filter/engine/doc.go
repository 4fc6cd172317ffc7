// Package engine decides requests. Compile turns a chain into an immutable
// Program once; Program.Decide then needs no I/O, no lock and no allocation, and
// is safe for concurrent use.
//
// An adapter (a way into Envoy; package filter says how to write one) does this for each
// request:
//
//  1. Program.Decide with the headers that every decision needs and the first
//     level of the token cache. NeedHeaders and NeedBody ask for more of the
//     request, Lookup means that this level does not know: ask the deeper levels
//     off the worker thread. In each case decide again, with a Tokens that knows
//     the answers so far. A chain with two kinds of credentials may ask twice.
//  2. Refuse: send Verdict.Refusal; to a gRPC client add grpc-status and
//     grpc-message (Refusal.GRPCStatus, Refusal.GRPCMessage) and send no body.
//  3. Continue and Issue: remove every header for which contract.IsReserved holds,
//     unless the listener has done that, and every trailer for which
//     contract.IsReservedTrailer holds in any case; drop the headers of Verdict.Remove; apply
//     Program.Rewrite if Verdict.HideQuery or Verdict.HideBody says so.
//  4. Continue: set the headers that Verdict.Headers names, remove the other
//     identity headers.
//  5. Issue: apply Program.HandOver, then clear the route cache, and refuse unless
//     the route is that of the OAuth server. Only chains that issue lead here.
//
// Credentials in bodies are looked for where a plugin asks for that and nothing else
// names one: in POST, PUT and PATCH requests with a form, JSON or multipart body
// of up to [MaxBody]. What the readers of queries and bodies accept, a second
// parser of the same bytes reads alike; what parsers differ about counts as no
// credential.
//
// Whatever cannot be decided refuses: a chain that does not compile, a record
// that could not be sent upstream, an answer of the cache that makes no sense.
package engine
