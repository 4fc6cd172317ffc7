package tokencache

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/contract"
)

// floors hold the revision of the newest invalidation of token hashes, credentials and
// consumers. Memory is fixed and nothing is ever dropped, so memory pressure never forces
// the global floor to rise. Invalidating a consumer with a million tokens takes a few
// stores.
type floors struct {
	seed   maphash.Seed
	tokens sketch
	// owners holds credentials and consumers.
	owners sketch
	// global is the floor of every record, from Welcome.Floor.
	global atomic.Uint64
	// nameless is the newest invalidation of an owner that named no control plane.
	nameless atomic.Uint64
}

// owner is a hash of a credential or consumer. 0 means no owner, and has no floor.
type owner uint32

// newFloors sizes the floors for a cache of maxBytes. They take at most an eighth of it.
func newFloors(maxBytes int64) *floors {
	n := min(max(maxBytes/(2*rows*8*8), minBuckets), maxBuckets)
	n = 1 << (bits.Len64(uint64(n)) - 1)
	return &floors{seed: maphash.MakeSeed(), tokens: newSketch(int(n)), owners: newSketch(int(n))}
}

// bytes returns the memory that the floors take.
func (f *floors) bytes() int64 { return f.tokens.bytes() + f.owners.bytes() }

// ownerOf returns the hash of a credential or consumer of a control plane, or 0 for an empty
// id. Ids are chosen by their writers: nobody must be able to raise the floor of what another
// control plane has under the same one.
func (f *floors) ownerOf(plane string, subject contract.Subject, id string) owner {
	if id == "" {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(f.seed)
	_, _ = h.WriteString(plane)             // documented to never fail
	_ = h.WriteByte(byte(subject))          // documented to never fail; no name has such a byte
	_, _ = h.WriteString(id)                // documented to never fail
	return owner(max(uint32(h.Sum64()), 1)) //nolint:gosec // any part of it will do
}

// spotOf returns where a token has its floor.
func spotOf(hash *contract.Hash) spot {
	return spot{binary.LittleEndian.Uint64(hash[16:]), binary.LittleEndian.Uint64(hash[24:])}
}

// spot returns where an owner has its floor. The factor is odd and has bits everywhere, so
// that owners that differ in any bit differ in the bits that are used.
func (o owner) spot() spot {
	h := uint64(o) * 0x9e3779b97f4a7c15
	return spot{h >> 32, h >> 11}
}

// raiseToken raises the floor of a token, raiseOwner that of all tokens of an owner.
func (f *floors) raiseToken(hash *contract.Hash, revision uint64) {
	f.tokens.raise(spotOf(hash), revision)
}

func (f *floors) raiseOwner(o owner, revision uint64) {
	if o != 0 {
		f.owners.raise(o.spot(), revision)
	}
}

// admits says whether a record read at revision may be used for hash.
func (f *floors) admits(hash *contract.Hash, revision uint64, credential, consumer owner) bool {
	return f.tokens.admits(spotOf(hash), revision) && f.admitsOwners(revision, credential, consumer)
}

// admitsOwners ignores the token's own floor. L1 removes a token's entry when that token is
// revoked, so an entry below its own floor belongs to an innocent token that shares the
// floor. It serves nobody, but Redis should get a newer record of it.
func (f *floors) admitsOwners(revision uint64, credential, consumer owner) bool {
	return revision >= f.global.Load() &&
		(credential == 0 || f.owners.admits(credential.spot(), revision)) &&
		(consumer == 0 || f.owners.admits(consumer.spot(), revision))
}

// clear forgets every floor, because floors belong to one log.
func (f *floors) clear() {
	f.tokens.clear()
	f.owners.clear()
	f.global.Store(0)
	f.nameless.Store(0)
}

// raise lifts a floor. Floors never sink within a log.
func raise(floor *atomic.Uint64, revision uint64) {
	for {
		old := floor.Load()
		if old >= revision || floor.CompareAndSwap(old, revision) {
			return
		}
	}
}
