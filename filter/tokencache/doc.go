// Package tokencache answers, inside Envoy, whether an access token is good. It has three
// levels: L1, a table in this process; L2, Redis, which only the control plane writes; and
// introspection at the control plane over the freshness link. docs/adr/0003-freshness.md
// says which level may answer in which state. This package is the filter's side of it.
//
// # Invariants
//
//   - A record is accepted only if its revision is not below a floor that
//     concerns it (token, credential, consumer, global), its token has not expired
//     and it is not too old.
//   - A filter has applied everything up to a position of one log, without a gap. A
//     frame that does not follow ends the link without an acknowledgement.
//   - Invalidations raise floors before they are acknowledged. The floors are
//     checked in the same critical section in which a record enters L1.
//   - Another log, or another position, begins a new generation: the lease, trust,
//     records and floors of the old one are removed before anything else is read,
//     and a look-up that began in the old generation leaves nothing behind.
//   - L1 answers only while the lease is live and the clocks agree as they did when
//     the lease was asked for, or in the documented grace.
//   - Redis is believed only as far as the control plane vouches for it: its
//     servers, its epoch, its place in the log, and the floors of each owner. Trust
//     that is acknowledged as durable is on disk, and a goodbye removes it from
//     there.
//   - The reader of the link never waits for a disk: one goroutine writes, and trust
//     that it has not written is not acknowledged as durable.
//   - If a look-up ends without an answer, and the trust of the filter has changed
//     meanwhile, the look-up begins again.
//   - No content of Redis makes Envoy allocate more than a record's size.
//   - A waiter is answered by reads that began after it arrived, or by L1 under
//     a live lease: coalescing never hands out an answer older than the request.
//   - A failure of Redis or of the link is never remembered as "unknown token".
//   - Every wait has a deadline; nothing queues behind a dead Redis, and no client
//     takes all the room for waiters.
//
// A static configuration has no control plane. The writer of Redis is then the authority,
// there is no L1, and neither epoch nor floors are needed.
//
// The hot path is [Cache.Lookup]. Everything that may wait is behind [Cache.Resolve]. The
// memory of L1 contains no pointers, so that a million tokens cost the garbage collector
// almost nothing.
package tokencache
