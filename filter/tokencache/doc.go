// Package tokencache answers, inside Envoy, whether an access token is good. It
// has three levels: L1, a table in this process; L2, Redis, which the control
// plane alone writes; and introspection at the control plane over the freshness
// link. docs/adr/0003-freshness.md says which level may answer in which state;
// this package is the filter's side of it.
//
// # Invariants
//
//   - A record is accepted only if its revision is not below a floor that
//     concerns it (token, credential, consumer, global), its token has not expired
//     and it is not too old.
//   - What was applied is everything up to a position of one log, without a gap. A
//     frame that does not follow ends the link, unacknowledged.
//   - Invalidations raise floors before they are acknowledged, and the floors
//     are looked at in the same critical section in which a record enters L1.
//   - Another log, or another position, begins a new generation: lease, trust,
//     records and floors of the former are gone before anything else is read, and
//     a look-up that began in the former leaves nothing behind.
//   - L1 answers only while the lease is live and the clocks agree as they did when
//     it was asked for, or in the documented grace.
//   - Redis is believed only as far as the control plane vouches for it: its
//     servers, its epoch, its place in the log, and the floors of each owner. What
//     is acknowledged about it as durable is on disk, and a goodbye takes it from
//     there.
//   - Whoever reads the link waits for no disk: one goroutine writes, and what it
//     has not written is not acknowledged as durable.
//   - A look-up that ends without an answer while the filter was told to believe
//     something else begins again.
//   - Nothing that stands in Redis makes Envoy allocate more than a record's size.
//   - A waiter is answered by reads that began after it arrived, or by L1 under
//     a live lease: coalescing never hands out an answer older than the request.
//   - A failure of Redis or of the link is never remembered as "unknown token".
//   - Every wait has a deadline; nothing queues behind a dead Redis, and nobody
//     takes all the room to wait.
//
// A static configuration has no control plane: then whoever writes Redis is the
// authority, there is no L1, and neither epoch nor floors are needed.
//
// The hot path is [Cache.Lookup]; everything that may wait is behind
// [Cache.Resolve]. Memory of L1 holds no pointers, so that a million tokens cost
// the garbage collector next to nothing.
package tokencache
