// Package revoke is the control plane's side of docs/adr/0003-freshness.md: it
// turns changes of tokens, applications and consumers into tombstones inside
// the transaction that makes them, and returns from [Revoker.Publish] only when
// no filter answers from the old state any more, or says honestly that it may.
//
// # Invariants
//
//   - What is revoked is in the journal before it is sent or written to Redis,
//     so a filter that connects in between gets it with its replay.
//   - A frame Granted follows every earlier Invalidate on the same ordered
//     queue, so a lease given after an invalidation cannot outlive it.
//   - A record is read and written to Redis inside the lock of its hash, as is
//     a tombstone; an older record never overwrites a tombstone.
//   - While Redis is not in order nothing is written there and nobody waits for
//     it; before it is used again the epoch is raised and tombstones replayed.
//   - Leases use the monotonic clock of this process only.
package revoke
