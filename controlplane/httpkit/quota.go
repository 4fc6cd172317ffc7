package httpkit

import (
	"container/list"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// quota bounds concurrent work for connections, in total and for each address, and the
// number of connections that wait for it. Addresses take turns, so that an address with many
// waiting delays another by only one turn. If too many wait, the newest of the address with
// the most waiting is refused. So a crowd behind one address may wait as long as nobody else
// needs the places.
type quota struct {
	total, each int // at a time
	queue       int // waiting

	mu             sync.Mutex
	active, queued int
	byAddress      map[netip.Prefix]*share
	row            *list.List // of *share with one waiting that may have a slot, the next first
	ranking        *ranking   // of the waiting ones
}

// share is the state of one address. It is dropped with its last user.
type share struct {
	at      netip.Prefix
	active  int
	waiting []*turn       // the oldest first
	place   *list.Element // in the row, or nil
}

// turn is a place of one that waits for a slot, or has it.
type turn struct {
	of      *share
	begin   chan struct{} // closed when the turn was granted or refused
	granted bool
}

func newQuota(total, each, queue int) *quota {
	return &quota{
		total: total, each: each, queue: queue,
		byAddress: map[netip.Prefix]*share{}, row: list.New(), ranking: newRanking(),
	}
}

// enter waits for a slot of the connection's address. ok is false if it was refused or ctx
// ends. leave gives the slot back.
func (q *quota) enter(ctx context.Context, conn net.Conn) (leave func(), ok bool) {
	t := q.ask(addressOf(conn))
	select {
	case <-t.begin:
		if !t.granted {
			return nil, false
		}
		return func() { q.end(t) }, true
	case <-ctx.Done():
		q.end(t)
		return nil, false
	}
}

// ask queues one turn, which is refused at once if there is no room for it.
func (q *quota) ask(at netip.Prefix) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.byAddress[at]
	if s == nil {
		s = &share{at: at}
		q.byAddress[at] = s
	}
	t := &turn{of: s, begin: make(chan struct{})}
	s.waiting = append(s.waiting, t)
	q.queued++
	q.ranking.more(at)
	q.settle(s)
	q.grant()
	if q.queued > q.queue {
		q.shed(s)
	}
	return t
}

// end gives a slot back, or leaves the queue.
func (q *quota) end(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := t.of
	if t.granted {
		s.active--
		q.active--
	} else if i := slices.Index(s.waiting, t); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		q.queued--
		q.ranking.less(s.at)
	}
	q.settle(s)
	q.grant()
}

// grant lets waiting turns begin while slots are free, one of each address in turn.
func (q *quota) grant() {
	for q.active < q.total && q.row.Len() > 0 {
		s := q.row.Front().Value.(*share)
		q.row.Remove(s.place)
		s.place = nil
		t := s.waiting[0]
		s.waiting = s.waiting[1:]
		q.queued--
		q.ranking.less(s.at)
		s.active++
		q.active++
		t.granted = true
		close(t.begin)
		q.settle(s)
	}
}

// shed refuses one waiting turn. Among equals the newcomer is refused, so that the others
// have not waited in vain.
func (q *quota) shed(newcomer *share) {
	most := newcomer
	if first := q.byAddress[q.ranking.first()]; len(first.waiting) > len(most.waiting) {
		most = first
	}
	last := len(most.waiting) - 1
	close(most.waiting[last].begin)
	most.waiting = slices.Delete(most.waiting, last, last+1)
	q.queued--
	q.ranking.less(most.at)
	q.settle(most)
}

// settle puts an address into the row or takes it out, and forgets it when nobody uses it.
func (q *quota) settle(s *share) {
	switch next := len(s.waiting) > 0 && s.active < q.each; {
	case next && s.place == nil:
		s.place = q.row.PushBack(s)
	case !next && s.place != nil:
		q.row.Remove(s.place)
		s.place = nil
	}
	if s.active == 0 && len(s.waiting) == 0 {
		delete(q.byAddress, s.at)
	}
}
