package httpkit

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// quota bounds what is done for connections at a time, in total and for each
// address. Whoever comes when an address has its share waits in turn, and keeps
// nobody of another address out.
type quota struct {
	total chan struct{}
	each  int

	mu        sync.Mutex
	byAddress map[netip.Prefix]*share
}

// share is what one address has; it is dropped with its last user.
type share struct {
	slots chan struct{}
	users int
}

func newQuota(total, each int) *quota {
	return &quota{total: make(chan struct{}, total), each: each, byAddress: map[netip.Prefix]*share{}}
}

// enter waits for a slot of the connection's address until ctx ends; ok is false
// then. leave gives the slot back.
func (q *quota) enter(ctx context.Context, conn net.Conn) (leave func(), ok bool) {
	at := addressOf(conn)
	q.mu.Lock()
	s := q.byAddress[at]
	if s == nil {
		s = &share{slots: make(chan struct{}, q.each)}
		q.byAddress[at] = s
	}
	s.users++
	q.mu.Unlock()
	for i, slots := range []chan struct{}{s.slots, q.total} {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-s.slots
			}
			q.drop(at, s)
			return nil, false
		}
	}
	return func() {
		<-q.total
		<-s.slots
		q.drop(at, s)
	}, true
}

func (q *quota) drop(at netip.Prefix, s *share) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(q.byAddress, at)
	}
}
