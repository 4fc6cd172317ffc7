// Package revoke is the control plane's part of docs/adr/0003-freshness.md. It turns
// changes of tokens, applications and consumers into tombstones, in the same transaction as
// the change. It gives the tombstones positions in a log that filters follow, and decides
// which Redis filters may believe. It answers a revocation only when no filter can take the
// old state from anywhere any more, or says that a filter still may.
//
// # Files
//
//   - stage.go: what a transaction revokes. confirm.go, settle.go: how long the caller
//     waits, and who else waits.
//   - publisher.go: one goroutine, which gives batches their positions (log.go).
//   - keeper.go: one goroutine, which puts Redis in order and watches it. cells.go
//     builds what is written there, records.go and inuse.go decide which records are
//     written, outdated.go which of those that were read may be.
//   - trust.go: what filters are told to believe, and which of them have confirmed it.
//     audience.go: whose credentials they may take from Redis, and so who waits for them.
//   - link.go, linkio.go: one connection per filter. known.go, ended.go: which
//     filters count although they are not connected. readers.go: of which scopes.
//
// # Invariants
//
//   - Positions are assigned, entries are queued on links, and links are registered
//     under one lock (mu). So a welcome covers everything that was published before it,
//     and the queue of the link carries everything later, in the order of the log.
//   - A Granted frame follows every earlier Invalidate on the same ordered queue, so
//     a lease given after an invalidation cannot outlive it.
//   - While Redis is in order it holds every entry of the log up to redisAt, and
//     writing there requires turn. A record that was read earlier is written only if
//     nothing was published since about any of its keys (outdated.go), so a revocation
//     is either seen by the read or written after the record.
//   - If a write to Redis failed and filters are told to believe Redis, the next
//     position withdraws that trust. A publication is confirmed by Redis, for filters
//     that have heard of its servers, or by every known filter that it concerns.
//   - Whose credentials the filters of a scope may take is noted before they are told, and
//     before Redis says so. Who has left is taken off only where neither says so any more.
//   - A write without an answer may be carried out later; see late.go.
//   - What is to be published is in rows of the store, and nowhere else, until it has
//     a position.
//   - Leases use the monotonic clock of this process only. The wall clock may be
//     changed, so only its bounds are used: data is forgotten by the earliest possible
//     time, and data that must last is dated by the latest possible time; see times.go.
package revoke
