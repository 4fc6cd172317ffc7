package tokencache

import "slices"

// maxLookups bounds the look-ups that ask Redis and the control plane at the same time. It
// is half of what the control plane answers for one link at the same time, and it is the
// number of connections to Redis. So a look-up that has its turn waits only for answers,
// never for other look-ups or for those that were given up.
const maxLookups = 32

// Asker says who asks, first by address, then by connection, so that no asker starves the
// others. Equal values are one asker. The zero value stands for all unknown askers.
type Asker struct{ Address, Connection uint64 }

// turns lets look-ups begin, at most maxLookups at the same time, in a fair order: addresses
// take turns, and so do the connections of an address. A flood from one of them delays the
// others by one turn each, no matter how many look-ups it has waiting. The owner of turns
// serialises access.
type turns struct {
	// resting says that no look-up may begin; they only wait.
	resting        bool
	active, queued int
	addresses      []*address // the next one first
	byAddress      map[uint64]*address
}

// address holds the waiting look-ups of one address.
type address struct {
	key          uint64
	queued       int
	connections  []*connection
	byConnection map[uint64]*connection
}

// connection holds the waiting look-ups of one connection, the oldest first.
type connection struct {
	key     uint64
	waiting []*turn
}

// turn is one look-up that waits to begin.
type turn struct {
	// begin is closed when the look-up may begin, was refused or was abandoned.
	begin     chan struct{}
	granted   bool
	refused   bool
	abandoned bool
}

// waits reports whether the look-up is in a queue.
func (w *turn) waits() bool { return !w.granted && !w.refused && !w.abandoned }

// ask queues a look-up. If more than maxFlights wait, one is refused: the newest of the
// longest queue of a connection, at the address with the most waiting. It may be this one.
func (t *turns) ask(from Asker) *turn {
	w := &turn{begin: make(chan struct{})}
	t.enqueue(from, w)
	if t.queued > maxFlights {
		t.shed()
	}
	t.grant()
	return w
}

// enqueue adds a look-up to the queue of a source.
func (t *turns) enqueue(from Asker, w *turn) {
	a := t.byAddress[from.Address]
	if a == nil {
		if t.byAddress == nil {
			t.byAddress = map[uint64]*address{}
		}
		a = &address{key: from.Address, byConnection: map[uint64]*connection{}}
		t.byAddress[a.key] = a
		t.addresses = append(t.addresses, a)
	}
	c := a.byConnection[from.Connection]
	if c == nil {
		c = &connection{key: from.Connection}
		a.byConnection[c.key] = c
		a.connections = append(a.connections, c)
	}
	c.waiting = append(c.waiting, w)
	a.queued++
	t.queued++
}

// shorter reports whether a has fewer waiting than b.
func (t *turns) shorter(a, b Asker) bool {
	aa, ab := t.byAddress[a.Address], t.byAddress[b.Address]
	switch {
	case ab == nil:
		return false
	case aa == nil:
		return true
	case aa != ab:
		return aa.queued < ab.queued
	}
	ca, cb := aa.byConnection[a.Connection], ab.byConnection[b.Connection]
	return cb != nil && (ca == nil || len(ca.waiting) < len(cb.waiting))
}

// shed refuses one waiting look-up.
func (t *turns) shed() {
	a := slices.MaxFunc(t.addresses, func(x, y *address) int { return x.queued - y.queued })
	// Among equals the last one is refused, so that the others have not waited in vain.
	c := a.connections[0]
	for _, o := range a.connections {
		if len(o.waiting) >= len(c.waiting) {
			c = o
		}
	}
	w := c.waiting[len(c.waiting)-1]
	c.waiting = c.waiting[:len(c.waiting)-1]
	t.took(a, c)
	w.refused = true
	close(w.begin)
}

// took counts one less, and forgets askers without waiting look-ups.
func (t *turns) took(a *address, c *connection) {
	a.queued--
	t.queued--
	if len(c.waiting) == 0 {
		delete(a.byConnection, c.key)
		a.connections = slices.DeleteFunc(a.connections, func(o *connection) bool { return o == c })
	}
	if a.queued == 0 {
		delete(t.byAddress, a.key)
		t.addresses = slices.DeleteFunc(t.addresses, func(o *address) bool { return o == a })
	}
}

// grant lets look-ups begin as long as turns are free.
func (t *turns) grant() {
	for !t.resting && t.active < maxLookups && t.queued > 0 {
		a := t.addresses[0]
		c := a.connections[0]
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		// Both go to the end of their queues.
		t.addresses = append(t.addresses[1:], a)
		a.connections = append(a.connections[1:], c)
		t.took(a, c)
		t.active++
		w.granted = true
		close(w.begin)
	}
}

// end gives a turn back, or leaves the queue.
func (t *turns) end(from Asker, w *turn) {
	if w.granted {
		t.active--
		t.grant()
		return
	}
	if w.waits() {
		t.leave(from, w)
	}
}

// abandon removes a waiting look-up from its queue for good, because nobody wants it any
// more.
func (t *turns) abandon(from Asker, w *turn) {
	if w.waits() {
		t.leave(from, w)
		w.abandoned = true
		close(w.begin)
	}
}

// leave removes a waiting look-up from the queue of its source.
func (t *turns) leave(from Asker, w *turn) {
	a := t.byAddress[from.Address]
	if a == nil || a.byConnection[from.Connection] == nil {
		return
	}
	c := a.byConnection[from.Connection]
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		t.took(a, c)
	}
}
