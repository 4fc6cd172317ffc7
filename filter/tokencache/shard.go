package tokencache

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/meshgate/meshgate/filter/contract"
)

// A shard keeps its records in a ring of bytes, in the order of their arrival, and finds
// them through an open-addressed index of 8-byte slots. The oldest end of the ring is the
// hand of a CLOCK: to make room, the shard looks at the oldest record. It moves the record
// to the front if it was used since, and otherwise forgets it. So there is no fragmentation,
// no free list and no pointer for the garbage collector.
//
// Record in the ring, little endian, 8-aligned:
//
//	size u32 | packed u32 | credential u32 | consumer u32 | revision u64 | end i64 | hash [32] | packed bytes
//
// A size of 0 means that the ring continues at its beginning.
//
// Slot: 31 bits of the hash | 1 bit "used since the hand passed" | 32 bits
// position/8+1. A slot of 0 is empty. Readers hold mu shared and only set the
// used bit, atomically.
type shard struct {
	mu    sync.RWMutex
	slots []uint64
	used  int // occupied slots
	ring  []byte
	head  int // where the next record goes
	tail  int // the oldest record
	full  int // bytes between tail and head, fillers included

	maxRing  int
	maxSlots int

	negatives []negative

	hits, negativeHits, misses, evictions atomic.Uint64
	_                                     [64]byte // keeps neighbours off this cache line
}

const (
	headerSize = 64
	// minRing holds at least one record of the largest size.
	minRing  = 8 << 10
	minSlots = 64
	// maxChances bounds the records one insertion moves to the front.
	maxChances = 16

	offPacked     = 4
	offCredential = 8
	offConsumer   = 12
	offRevision   = 16
	offEnd        = 24
	offHash       = 32

	usedBit = 1 << 32
)

// entry is the header of a record in the ring.
type entry struct {
	hash       contract.Hash
	credential owner
	consumer   owner
	revision   uint64
	// end is when the record stops serving, see over.
	end int64
}

// setLimit sizes an empty shard for a share of the cache's bytes.
func (s *shard) setLimit(share int) {
	s.slots, s.ring = make([]uint64, minSlots), make([]byte, minRing)
	s.used, s.head, s.tail, s.full = 0, 0, 0, 0
	s.maxSlots = max(minSlots, floorPow2(share/8/8))
	s.maxRing = max(minRing, (share-8*s.maxSlots)&^7)
}

// clear forgets all records and all unknown tokens, and keeps the memory. The
// caller holds mu.
func (s *shard) clear() {
	clear(s.slots)
	clear(s.negatives)
	s.used, s.head, s.tail, s.full = 0, 0, 0, 0
}

// inUse appends the hashes of up to limit records that serve. Records that were used since
// the hand passed come first.
func (s *shard) inUse(to []contract.Hash, limit int, serves func(*entry) bool) []contract.Hash {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, used := range []uint64{usedBit, 0} {
		for i := range s.slots {
			v := atomic.LoadUint64(&s.slots[i])
			if v == 0 || v&usedBit != used || limit == 0 {
				continue
			}
			p := position(v)
			if e := s.header(p); serves(&e) {
				to = append(to, contract.Hash(s.ring[p+offHash:p+headerSize]))
				limit--
			}
		}
	}
	return to
}

func floorPow2(n int) int {
	p := 1
	for p*2 <= n {
		p *= 2
	}
	return p
}

func tagOf(hash *contract.Hash) uint64 {
	return uint64(binary.LittleEndian.Uint32(hash[1:]) >> 1)
}

// find returns the index of a hash's slot and its record's position, or -1.
func (s *shard) find(hash *contract.Hash) (slot, pos int) {
	tag, mask := tagOf(hash), len(s.slots)-1
	for i := int(tag) & mask; ; i = (i + 1) & mask { //nolint:gosec // a tag has 31 bits
		v := atomic.LoadUint64(&s.slots[i])
		if v == 0 {
			return -1, 0
		}
		if v>>33 != tag {
			continue
		}
		p := position(v)
		if [32]byte(s.ring[p+offHash:p+headerSize]) == *hash {
			return i, p
		}
	}
}

func position(slot uint64) int { return (int(slot&0xffffffff) - 1) * 8 }

func slotValue(tag uint64, pos int) uint64 {
	return tag<<33 | uint64(pos/8+1) //nolint:gosec // positions are not negative
}

// touch marks a record as used. The caller holds mu at least shared.
func (s *shard) touch(slot int) {
	p := &s.slots[slot]
	if atomic.LoadUint64(p)&usedBit == 0 {
		atomic.OrUint64(p, usedBit)
	}
}

func (s *shard) header(pos int) (e entry) {
	b := s.ring[pos : pos+headerSize]
	e.credential = owner(binary.LittleEndian.Uint32(b[offCredential:]))
	e.consumer = owner(binary.LittleEndian.Uint32(b[offConsumer:]))
	e.revision = binary.LittleEndian.Uint64(b[offRevision:])
	e.end = int64(binary.LittleEndian.Uint64(b[offEnd:])) //nolint:gosec // written from an int64
	return e
}

func (s *shard) packed(pos int) []byte {
	n := int(binary.LittleEndian.Uint32(s.ring[pos+offPacked:]))
	return s.ring[pos+headerSize : pos+headerSize+n]
}

// put stores a record and returns how many others were evicted. The caller holds mu
// exclusively and has removed an older record of the hash.
func (s *shard) put(e *entry, packed []byte, void func(*entry) bool) (evicted int) {
	size := (headerSize + len(packed) + 7) &^ 7
	chances := maxChances
	for !s.roomForSlot() || !s.roomFor(size) {
		if s.full == 0 { // cannot happen: the ring has room for the largest record
			return evicted
		}
		var gone bool
		chances, gone = s.advance(chances, void)
		if gone {
			evicted++
		}
	}
	p := s.head
	b := s.ring[p : p+size]
	binary.LittleEndian.PutUint32(b, uint32(size))                    //nolint:gosec // at most MaxPacked+64
	binary.LittleEndian.PutUint32(b[offPacked:], uint32(len(packed))) //nolint:gosec // at most MaxPacked
	binary.LittleEndian.PutUint32(b[offCredential:], uint32(e.credential))
	binary.LittleEndian.PutUint32(b[offConsumer:], uint32(e.consumer))
	binary.LittleEndian.PutUint64(b[offRevision:], e.revision)
	binary.LittleEndian.PutUint64(b[offEnd:], uint64(e.end)) //nolint:gosec // read back as int64
	copy(b[offHash:], e.hash[:])
	copy(b[headerSize:], packed)
	s.head, s.full = p+size, s.full+size
	place(s.slots, slotValue(tagOf(&e.hash), p))
	s.used++
	return evicted
}

// place puts a slot value into the first free slot of its probe sequence.
func place(slots []uint64, v uint64) {
	mask := len(slots) - 1
	i := int(v>>33) & mask
	for slots[i] != 0 {
		i = (i + 1) & mask
	}
	slots[i] = v
}

// remove forgets a record. Its bytes are reused when the hand passes them.
func (s *shard) remove(slot int) {
	s.used--
	mask := len(s.slots) - 1
	hole := slot
	for i := (slot + 1) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		home := int(s.slots[i]>>33) & mask
		if (i-home)&mask >= (i-hole)&mask { // the hole lies on its probe sequence
			s.slots[hole], hole = s.slots[i], i
		}
	}
	s.slots[hole] = 0
}
