package main

import (
	"errors"
	"sync"
	"sync/atomic"
)

const (
	chunkBits = 10
	chunkSize = 1 << chunkBits
	maxChunks = 1 << 10
)

var errTableFull = errors.New("handle table is full")

// table names Go values by small integers, which C may keep. Reading takes two
// atomic loads; 0 is never given out. The owner of a handle must not use it
// after it gave it back.
type table[T any] struct {
	chunks [maxChunks]atomic.Pointer[[chunkSize]atomic.Pointer[T]]
	mu     sync.Mutex
	free   []uint32
	next   uint32
}

// put stores v and returns its handle.
func (t *table[T]) put(v *T) (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var h uint32
	if n := len(t.free); n > 0 {
		h, t.free = t.free[n-1], t.free[:n-1]
	} else {
		if t.next+1 >= chunkSize*maxChunks {
			return 0, errTableFull
		}
		t.next++
		h = t.next
	}
	c := t.chunks[h>>chunkBits].Load()
	if c == nil {
		c = new([chunkSize]atomic.Pointer[T])
		t.chunks[h>>chunkBits].Store(c)
	}
	c[h&(chunkSize-1)].Store(v)
	return h, nil
}

// get returns the value, or nil for 0 and handles that are not in use.
func (t *table[T]) get(h uint32) *T {
	if h>>chunkBits >= maxChunks {
		return nil
	}
	c := t.chunks[h>>chunkBits].Load()
	if c == nil {
		return nil
	}
	return c[h&(chunkSize-1)].Load()
}

// drop gives a handle back and returns what it named, or nil if it was not in
// use.
func (t *table[T]) drop(h uint32) *T {
	if t.get(h) == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.chunks[h>>chunkBits].Load()[h&(chunkSize-1)].Swap(nil)
	if old != nil {
		t.free = append(t.free, h)
	}
	return old
}
