package tokencache

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/contract"
)

// Bounds of the number of floor buckets of each kind, powers of two.
const (
	minFloorBuckets = 1 << 10
	maxFloorBuckets = 1 << 17
)

// floors remember, for token hashes, credentials and consumers, the revision of
// the newest invalidation.
//
// Subjects share buckets by hash and a bucket keeps the highest floor of all
// its subjects. Memory is therefore fixed, nothing is ever dropped (so memory
// pressure never has to raise the global floor), invalidating a consumer with a
// million tokens is one store and the check is one load. A collision makes an
// innocent older record unusable once, in L1 as in Redis; its next look-up yields a
// newer revision, and has that written to Redis. L1 must not go on with the older
// one: nobody would ask, and the token would be refused when only Redis is left. One
// revocation costs one look-up of each token in use that shares its bucket. A
// collision can never make a void record usable.
type floors struct {
	seed   maphash.Seed
	tokens []atomic.Uint64
	// owners holds credentials and consumers. Bucket 0 is never raised: it
	// stands for "no consumer".
	owners []atomic.Uint64
	// global is the floor of every record, from Welcome.Floor.
	global atomic.Uint64
}

// owner is a bucket of floors.owners.
type owner uint32

// newFloors sizes the buckets for a cache of maxBytes: at most a 16th of it.
func newFloors(maxBytes int64) *floors {
	n := min(max(maxBytes/256, minFloorBuckets), maxFloorBuckets)
	n = 1 << (bits.Len64(uint64(n)) - 1)
	return &floors{
		seed:   maphash.MakeSeed(),
		tokens: make([]atomic.Uint64, n),
		owners: make([]atomic.Uint64, n),
	}
}

// ownerOf returns the bucket of a credential or consumer; an empty id is none.
func (f *floors) ownerOf(subject contract.Subject, id string) owner {
	if id == "" {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(f.seed)
	_ = h.WriteByte(byte(subject))                      // documented to never fail
	_, _ = h.WriteString(id)                            // documented to never fail
	return owner(h.Sum64()%uint64(len(f.owners)-1)) + 1 //nolint:gosec // the table is never empty
}

func (f *floors) token(hash *contract.Hash) *atomic.Uint64 {
	i := uint32(hash[28]) | uint32(hash[29])<<8 | uint32(hash[30])<<16
	return &f.tokens[int(i)&(len(f.tokens)-1)]
}

// admits says whether a record read at revision may be used for hash.
func (f *floors) admits(hash *contract.Hash, revision uint64, credential, consumer owner) bool {
	return revision >= f.token(hash).Load() && f.admitsOwners(revision, credential, consumer)
}

// admitsOwners leaves out the token's own floor. What L1 holds under that is of an
// innocent token, for an entry is removed when its own token is revoked: it serves
// nobody, but is worth a newer record.
func (f *floors) admitsOwners(revision uint64, credential, consumer owner) bool {
	return revision >= f.global.Load() &&
		revision >= f.owners[credential].Load() &&
		revision >= f.owners[consumer].Load()
}

// raise lifts a floor; within a log floors never sink.
func raise(floor *atomic.Uint64, revision uint64) {
	for {
		old := floor.Load()
		if old >= revision || floor.CompareAndSwap(old, revision) {
			return
		}
	}
}

// clear forgets every floor. They belong to one log.
func (f *floors) clear() {
	for i := range f.tokens {
		f.tokens[i].Store(0)
	}
	for i := range f.owners {
		f.owners[i].Store(0)
	}
	f.global.Store(0)
}
