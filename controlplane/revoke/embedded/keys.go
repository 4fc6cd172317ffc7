package embedded

import (
	"container/heap"
	"math"
	"time"
)

// item is one key that the control plane announced with [Server.Track].
type item struct {
	key     string
	expires int64 // MaxInt64 = never
	guard   bool
	index   int
}

// get reads a key. Callers must not change the value.
func (s *Server) get(key []byte) ([]byte, bool) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	v, ok := s.values[string(key)]
	return v, ok
}

// set writes a key. It keeps the value without copying it. It returns false if there is no
// room for a new key. Keys that were not tracked never expire, and the bound keeps them
// from filling the server.
func (s *Server) set(key string, value []byte) bool {
	s.reading.Lock()
	defer s.reading.Unlock()
	if _, old := s.values[key]; !old && len(s.values) >= s.o.MaxKeys+untracked {
		return false
	}
	s.values[key] = value
	return true
}

func (s *Server) remove(key string) {
	s.reading.Lock()
	defer s.reading.Unlock()
	delete(s.values, key)
}

// Track notes a key that is about to be written, and makes room for it. Records that end
// first are evicted first. Tombstones and floors are evicted only when no record is left.
func (s *Server) Track(key string, expires int64, guard bool) {
	if expires == 0 {
		expires = math.MaxInt64
	} else {
		expires += slack.Milliseconds()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.keys[key]; old != nil {
		heap.Remove(s.queue(old), old.index)
	}
	delete(s.keys, key)
	// Room is made before the new key is added, so that it is not evicted before it is
	// written.
	for len(s.keys) >= s.o.MaxKeys {
		s.evict()
	}
	it := &item{key: key, expires: expires, guard: guard}
	s.keys[key] = it
	heap.Push(s.queue(it), it)
	if it.index > 0 {
		return // another key ends first, and the timer is set for it
	}
	select {
	case s.wake <- struct{}{}:
	default: // it will look at the queues anyway
	}
}

// Put tracks a key and writes it. It keeps the value without copying it, and returns false if
// there is no room.
func (s *Server) Put(key string, value []byte, expires int64, guard bool) bool {
	s.Track(key, expires, guard)
	return s.set(key, value)
}

// Value returns the value of a key, nil if there is none. Callers must not change it.
func (s *Server) Value(key string) []byte {
	v, _ := s.get([]byte(key))
	return v
}

func (s *Server) evict() {
	if len(s.due) > 0 {
		s.drop(&s.due)
		return
	}
	s.drop(&s.hard)
}

func (s *Server) queue(it *item) *queue {
	if it.guard {
		return &s.hard
	}
	return &s.due
}

func (s *Server) drop(q *queue) {
	it := heap.Pop(q).(*item)
	delete(s.keys, it.key)
	s.remove(it.key)
}

// expire removes ended keys until the server closes.
func (s *Server) expire() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		t.Reset(s.sweep())
		select {
		case <-s.stop:
			return
		case <-t.C:
		case <-s.wake:
		}
	}
}

// sweep removes ended keys and returns the time until the next key ends.
func (s *Server) sweep() time.Duration {
	for {
		if next, done := s.sweepSome(); done {
			return next
		}
	}
}

// sweepSome removes so few keys that it holds the lock only briefly. Writers and readers
// run in between, however many keys end at once.
func (s *Server) sweepSome() (next time.Duration, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, soonest := s.o.Now().UnixMilli(), int64(math.MaxInt64)
	dropped := 0
	for _, q := range []*queue{&s.due, &s.hard} {
		for len(*q) > 0 && (*q)[0].expires <= now {
			if dropped++; dropped > sweepAtOnce {
				return 0, false
			}
			s.drop(q)
		}
		if len(*q) > 0 {
			soonest = min(soonest, (*q)[0].expires)
		}
	}
	if soonest-now > time.Hour.Milliseconds() {
		return time.Hour, true
	}
	// The pause has a minimum, so that keys that end shortly after each other go together.
	return max(time.Duration(soonest-now)*time.Millisecond, sweepPause), true
}

// queue is a heap by expiry.
type queue []*item

// Len implements heap.Interface.
func (q queue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q queue) Less(i, j int) bool { return q[i].expires < q[j].expires }

// Swap implements heap.Interface.
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	it := x.(*item)
	it.index = len(*q)
	*q = append(*q, it)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return it
}
