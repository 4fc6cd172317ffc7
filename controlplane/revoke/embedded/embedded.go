// Package embedded is the Redis of a control plane that was given none: an
// in-process server on loopback. It keeps no data over a restart, which costs
// look-ups and never exactness, and bounds what it holds by itself.
package embedded

import (
	"container/heap"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Defaults.
const (
	// Port is tried first; the next free one of the following is taken.
	Port  = 6390
	ports = 100
	// MaxKeys bounds the number of keys. It is far above the number of
	// tombstones that are replayed after a loss.
	MaxKeys = 1 << 20
	// slack keeps ended keys for longer than a write may take, so that none is
	// removed before it is written.
	slack = 2 * time.Second
)

// Options of a Server.
type Options struct {
	// Port to try first; 0 means [Port].
	Port int
	// MaxKeys bounds keys; 0 means [MaxKeys].
	MaxKeys int
	// Guarded is called before a tombstone is dropped to make room: records it
	// guards must be void from then on. It must not block.
	Guarded func()
	// Now is the wall clock.
	Now func() time.Time
}

// Server is a running Redis. It implements the tracker of package revoke.
type Server struct {
	o        Options
	redis    *miniredis.Miniredis
	password string
	stop     chan struct{}
	done     chan struct{}
	wake     chan struct{}

	mu   sync.Mutex
	keys map[string]*item
	due  queue // records, by expiry
	hard queue // tombstones, by expiry
}

// item is one key.
type item struct {
	key     string
	expires int64 // MaxInt64 = never
	guard   bool
	index   int
}

// Start starts a server with a password of its own.
func Start(o Options) (*Server, error) {
	if o.Port == 0 {
		o.Port = Port
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = MaxKeys
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{
		o: o, password: rand.Text(), keys: map[string]*item{},
		stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	for p := o.Port; p < o.Port+ports; p++ {
		s.redis = miniredis.NewMiniRedis()
		s.redis.ClockTTL(false) // it makes reads slow; expired keys are removed here
		s.redis.RequireAuth(s.password)
		err := s.redis.StartAddr(net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err == nil {
			go s.expire()
			return s, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("start the embedded redis: %w", err)
		}
	}
	return nil, fmt.Errorf("no port for the embedded redis is free from %d to %d", o.Port, o.Port+ports-1)
}

// Address is host:port.
func (s *Server) Address() string { return s.redis.Addr() }

// URL contains the password; it belongs into files of mode 0600 only.
func (s *Server) URL() string { return "redis://:" + s.password + "@" + s.redis.Addr() + "/0" }

// Len is the number of tracked keys.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// Close stops the server and waits.
func (s *Server) Close() {
	close(s.stop)
	<-s.done
	s.redis.Close()
}

// Track notes a key that is about to be written and makes room for it: records
// that end first go first, tombstones only when there is no record left.
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
	// Room is made first: the new key, which is not written yet, is not a candidate.
	for len(s.keys) >= s.o.MaxKeys {
		s.evict()
	}
	it := &item{key: key, expires: expires, guard: guard}
	s.keys[key] = it
	heap.Push(s.queue(it), it)
	select {
	case s.wake <- struct{}{}:
	default: // it will look at the queues anyway
	}
}

func (s *Server) evict() {
	if len(s.due) > 0 {
		s.drop(&s.due)
		return
	}
	if s.o.Guarded != nil {
		s.o.Guarded()
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
	s.redis.Del(it.key)
}

// expire removes keys whose time is over.
func (s *Server) expire() {
	defer close(s.done)
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

// sweep returns how long nothing expires.
func (s *Server) sweep() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, next := s.o.Now().UnixMilli(), int64(math.MaxInt64)
	for _, q := range []*queue{&s.due, &s.hard} {
		for len(*q) > 0 && (*q)[0].expires <= now {
			s.drop(q)
		}
		if len(*q) > 0 {
			next = min(next, (*q)[0].expires)
		}
	}
	if next-now > time.Hour.Milliseconds() {
		return time.Hour
	}
	return time.Duration(next-now) * time.Millisecond
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
