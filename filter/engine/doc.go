// Package engine decides requests. Compile turns a chain into an immutable
// Program once; Program.Decide then needs no I/O, no lock and no allocation, and
// is safe for concurrent use.
//
// An adapter (a way into Envoy) does this for each request:
//
//  1. Program.Decide with the first level of the token cache. Lookup means that
//     this level does not know: ask the deeper levels off the worker thread and
//     decide again with a Tokens that knows the answer.
//  2. Refuse: send Verdict.Refusal; to a gRPC client add grpc-status and
//     grpc-message (Refusal.GRPCStatus, Refusal.GRPCMessage) and send no body.
//  3. Continue and Issue: remove every header for which [Spoofs] holds, unless
//     the listener has done that.
//  4. Continue: set the headers that Verdict.Headers names, remove the other
//     identity headers, drop the credential if Verdict.RemoveCredential.
//  5. Issue: apply Program.HandOver, then clear the route cache.
//
// Whatever cannot be decided refuses: a chain that does not compile, a record
// that could not be sent upstream, an answer of the cache that makes no sense.
package engine
