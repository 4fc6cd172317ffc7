// Package engine decides requests. Compile turns a chain into an immutable Program once.
// Program.Decide then needs no I/O, no lock and no allocation, and is safe for concurrent
// use.
//
// An adapter (a way into Envoy; package filter says how to write one) does this for each
// request:
//
//  1. Call Program.Decide with the headers that every decision needs and the first
//     level of the token cache. NeedHeaders and NeedBody ask for more of the
//     request. Lookup means that the first level has no answer: ask the deeper levels
//     off the worker thread. In each case decide again, with a Tokens that knows
//     the answers so far. A chain with two kinds of credentials may ask twice.
//  2. Refuse: send Verdict.Refusal; to a gRPC client add grpc-status and
//     grpc-message (Refusal.GRPCStatus, Refusal.GRPCMessage) and send no body.
//  3. Continue and Issue: remove every header for which contract.IsReserved holds,
//     unless the listener has done that. Always remove every trailer for which
//     contract.IsReservedTrailer holds. Drop the headers of Verdict.Remove. Apply
//     Program.Rewrite if Verdict.HideQuery or Verdict.HideBody says so.
//  4. Continue: set the headers that Verdict.Headers names, and remove the other
//     identity headers.
//  5. Issue: apply Program.HandOver, then clear the route cache, and refuse unless
//     the new route leads to the OAuth server. Only chains that issue lead here.
//
// Bodies are searched for credentials only if a plugin asks for it and the request names a
// credential nowhere else. The request must be a POST, PUT or PATCH with a form, JSON or
// multipart body of up to [MaxBody]. A credential that the readers of queries and bodies
// accept is read alike by every other parser of the same bytes. A value that parsers may
// read differently counts as no credential.
//
// Whatever cannot be decided is refused: a chain that does not compile, a record that could
// not be sent upstream, an answer of the cache that makes no sense.
package engine
