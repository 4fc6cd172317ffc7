package tokencache

import (
	"encoding/binary"

	"github.com/meshgate/meshgate/filter/contract"
)

// roomForSlot grows the index if needed. It returns false if the index is full.
func (s *shard) roomForSlot() bool {
	if s.used < len(s.slots)/4*3 {
		return true
	}
	if len(s.slots) >= s.maxSlots {
		return false
	}
	old := s.slots
	s.slots = make([]uint64, 2*len(old))
	for _, v := range old {
		if v != 0 {
			place(s.slots, v)
		}
	}
	return true
}

// roomFor makes head the start of size free bytes and grows the ring while it may grow. It
// returns false if the oldest record must go first.
func (s *shard) roomFor(size int) bool {
	for {
		switch {
		case s.full == 0:
			s.head, s.tail = 0, 0
			return true
		case s.head > s.tail && len(s.ring)-s.head >= size:
			return true
		case s.head > s.tail && s.tail >= size:
			s.wrapHead()
			return true
		case s.head < s.tail && s.tail-s.head >= size:
			return true
		case len(s.ring) >= s.maxRing:
			return false
		}
		s.grow()
	}
}

// wrapHead turns the rest of the ring into a filler.
func (s *shard) wrapHead() {
	if rest := len(s.ring) - s.head; rest > 0 {
		binary.LittleEndian.PutUint32(s.ring[s.head:], 0)
		s.full += rest
	}
	s.head = 0
}

// skipFiller moves the tail from the end of the ring to its beginning.
func (s *shard) skipFiller() {
	if s.tail == len(s.ring) {
		s.tail = 0
		return
	}
	if binary.LittleEndian.Uint32(s.ring[s.tail:]) == 0 {
		s.full -= len(s.ring) - s.tail
		s.tail = 0
	}
}

// drop releases the oldest record's bytes and returns where they were.
func (s *shard) drop() (pos, size int) {
	s.skipFiller()
	pos = s.tail
	size = int(binary.LittleEndian.Uint32(s.ring[pos:]))
	s.tail += size
	s.full -= size
	return pos, size
}

// owned returns the slot that points at pos, or -1 if the record there has been removed or
// replaced.
func (s *shard) owned(pos int) int {
	hash := contract.Hash(s.ring[pos+offHash : pos+headerSize])
	tag, mask := tagOf(&hash), len(s.slots)-1
	for i := int(tag) & mask; s.slots[i] != 0; i = (i + 1) & mask { //nolint:gosec // a tag has 31 bits
		if position(s.slots[i]) == pos {
			return i
		}
	}
	return -1
}

// advance moves the hand by one record. A record that was used since the hand last passed
// goes to the front, unless no chances are left or it is void. gone says that a record was
// forgotten that could still have served.
func (s *shard) advance(chances int, void func(*entry) bool) (left int, gone bool) {
	pos, size := s.drop()
	slot := s.owned(pos)
	if slot < 0 {
		return chances, false
	}
	e := s.header(pos)
	dead := void(&e)
	if chances > 0 && !dead && s.slots[slot]&usedBit != 0 && s.roomForSecond(size) {
		// Source and target may overlap; copy allows this.
		copy(s.ring[s.head:s.head+size], s.ring[pos:pos+size])
		s.slots[slot] = slotValue(s.slots[slot]>>33, s.head)
		s.head += size
		s.full += size
		return chances - 1, false
	}
	s.remove(slot)
	return chances, !dead
}

// roomForSecond is roomFor for the record that was just dropped. Its own bytes are free, so
// there is room without growing. They are not overwritten before they are copied, because a
// filler goes behind head, and head lies behind them.
func (s *shard) roomForSecond(size int) bool {
	switch {
	case s.full == 0:
		return false // it was the only record; moving it would free nothing
	case s.head <= s.tail:
		return s.tail-s.head >= size
	case len(s.ring)-s.head < size:
		s.wrapHead()
	}
	return true
}

// grow doubles the ring and packs the live records to its beginning. It fills a
// new index, because positions in the old and the new ring must not mix.
func (s *shard) grow() {
	ring, slots := make([]byte, min(2*len(s.ring), s.maxRing)), make([]uint64, len(s.slots))
	to := 0
	for s.full > 0 {
		pos, size := s.drop()
		slot := s.owned(pos)
		if slot < 0 {
			continue
		}
		copy(ring[to:], s.ring[pos:pos+size])
		v := s.slots[slot]
		place(slots, v&usedBit|slotValue(v>>33, to))
		to += size
	}
	s.ring, s.slots, s.head, s.tail, s.full = ring, slots, to, 0, to
}
