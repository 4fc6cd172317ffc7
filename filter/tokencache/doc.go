// Package tokencache answers, inside Envoy, whether an access token is good. It
// has three levels: L1, a table in this process; L2, Redis, which the control
// plane alone writes; and introspection at the control plane over the freshness
// link. docs/adr/0003-freshness.md says which level may answer in which state;
// this package is the filter's side of it.
//
// # Invariants
//
//   - A record is accepted only if its revision is not below a floor that
//     concerns it (token, credential, consumer, global) and it has not expired.
//   - Invalidations raise floors before they are acknowledged, and the floors
//     are looked at in the same critical section in which a record enters L1.
//   - L1 answers only while the lease is live, or in the documented grace.
//   - A waiter is answered by reads that began after it arrived, or by L1 under
//     a live lease: coalescing never hands out an answer older than the request.
//   - A failure of Redis or of the link is never remembered as "unknown token".
//   - Every wait has a deadline; nothing queues behind a dead Redis.
//
// The hot path is [Cache.Lookup]; everything that may wait is behind
// [Cache.Resolve]. Memory of L1 holds no pointers, so that a million tokens cost
// the garbage collector next to nothing.
package tokencache
