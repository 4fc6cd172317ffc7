package host

import (
	"errors"
	"sync"
	"sync/atomic"
)

const (
	chunkBits = 10
	chunkSize = 1 << chunkBits
	maxChunks = 1 << 10
	// indexBits of a handle select the slot, and the other bits count its former uses. So a
	// handle that was given back names nothing, even if the slot holds another value by
	// then.
	indexBits = 2 * chunkBits
	maxUses   = 1 << (32 - indexBits)
)

var errTableFull = errors.New("handle table is full")

// slot holds one value. handle is the handle of that value. It changes only while the slot
// is empty.
type slot[T any] struct {
	value  atomic.Pointer[T]
	handle atomic.Uint32
}

// table names Go values by small integers, which C may keep. Reading takes three atomic
// loads. 0 is never a handle. A handle that was given back is not reused until its slot has
// been used 4,096 more times; slots are used in turn.
type table[T any] struct {
	chunks [maxChunks]atomic.Pointer[[chunkSize]slot[T]]
	mu     sync.Mutex
	free   []uint32 // handles given back, the oldest first
	next   uint32
}

// put stores v and returns its handle.
func (t *table[T]) put(v *T) (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var h uint32
	if len(t.free) > 0 {
		h, t.free = again(t.free[0]), t.free[1:]
	} else {
		if t.next+1 >= chunkSize*maxChunks {
			return 0, errTableFull
		}
		t.next++
		h = t.next
	}
	chunk := &t.chunks[index(h)>>chunkBits]
	if chunk.Load() == nil {
		chunk.Store(new([chunkSize]slot[T]))
	}
	s := t.slot(h)
	s.handle.Store(h)
	s.value.Store(v)
	return h, nil
}

func index(h uint32) uint32 { return h & (1<<indexBits - 1) }

// again returns the next handle for the slot of one that was given back.
func again(h uint32) uint32 {
	return (h>>indexBits+1)%maxUses<<indexBits | index(h)
}

// slot returns the slot of a handle, or nil if there never was one.
func (t *table[T]) slot(h uint32) *slot[T] {
	i := index(h)
	c := t.chunks[i>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return &c[i&(chunkSize-1)]
}

// get returns the value, or nil for 0 and handles that are not in use. It reads the value
// before the handle: if the slot has got another value since, the handle differs.
func (t *table[T]) get(h uint32) *T {
	s := t.slot(h)
	if s == nil {
		return nil
	}
	v := s.value.Load()
	if s.handle.Load() != h {
		return nil
	}
	return v
}

// drop gives a handle back. It returns the value, or nil if the handle was not in use.
func (t *table[T]) drop(h uint32) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.get(h)
	if old != nil {
		t.slot(h).value.Store(nil)
		t.free = append(t.free, h)
	}
	return old
}
