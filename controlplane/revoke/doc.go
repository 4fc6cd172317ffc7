// Package revoke is the control plane's side of docs/adr/0003-freshness.md: it
// turns changes of tokens, applications and consumers into tombstones inside the
// transaction that makes them, gives them positions in a log that filters follow,
// says which Redis may be believed, and answers a revocation only when no filter
// takes the old state from anywhere any more, or says honestly that one may.
//
// # Who does what
//
//   - stage.go: what a transaction revokes. confirm.go, settle.go: how long its
//     caller waits, and who else does.
//   - publisher.go: one goroutine, which gives batches their positions (log.go).
//   - keeper.go: one goroutine, which puts Redis in order and watches it. cells.go
//     is what is written there, records.go and inuse.go who has it written.
//   - trust.go: what filters are told to believe, and which of them have confirmed it.
//   - link.go, linkio.go: one connection per filter. known.go, ended.go: which
//     filters count although they are not connected.
//
// # Invariants
//
//   - Positions are assigned, entries queued on links, and links registered under
//     one lock (mu), so what was published before a link is in its welcome, and
//     what comes later in its queue, in the order of the log.
//   - A frame Granted follows every earlier Invalidate on the same ordered queue, so
//     a lease given after an invalidation cannot outlive it.
//   - While Redis is in order it holds every entry of the log up to redisAt, and
//     nobody writes there without turn. A record is read and written within one
//     turn, so a revocation is seen by the read or written after the record.
//   - If Redis was not written and filters are told to believe it, the next position
//     takes that back. A publication is confirmed by Redis, for filters that have heard of its
//     servers, or by every known filter.
//   - A write without an answer may be carried out later; see late.go.
//   - What is to be published is in rows of the store, and nowhere else, until it has
//     a position.
//   - Leases use the monotonic clock of this process only. Of the wall clock, which may be
//     set, only bounds are believed: what is forgotten is forgotten by the earliest time,
//     what must last is dated by the latest; see times.go.
package revoke
