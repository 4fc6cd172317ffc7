package httpkit

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// room holds connections that have not yet shown that they are worth keeping. It is bounded
// in total and for each address. Nobody waits to get in: if the room is full, a new
// connection replaces the oldest one of the address with the most. This works because
// well-behaved clients leave the room within a round trip, while silent ones stay. So a
// crowd behind one address gets all the room there is, but displaces no address that has
// less.
type room struct {
	total, each int

	mu        sync.Mutex
	n         int
	byAddress map[netip.Prefix]*list.List // of *guest, the longest there first
	ranking   *ranking
}

// guest is one connection in a room.
type guest struct {
	conn    net.Conn
	address netip.Prefix
	place   *list.Element // nil when it has left
}

func newRoom(total, each int) *room {
	return &room{total: total, each: each, byAddress: map[netip.Prefix]*list.List{}, ranking: newRanking()}
}

// enter adds a connection and returns the function with which it leaves, which may be called
// even after it was put out. A connection that is put out is closed.
func (r *room) enter(conn net.Conn) (leave func()) {
	g := &guest{conn: conn, address: addressOf(conn)}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.byAddress[g.address]
	if of == nil {
		of = list.New()
		r.byAddress[g.address] = of
	}
	g.place = of.PushBack(g)
	r.n++
	r.ranking.more(g.address)
	switch {
	case of.Len() > r.each:
		r.putOut(of.Front())
	case r.n > r.total:
		r.putOut(r.byAddress[r.ranking.first()].Front())
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.remove(g)
	}
}

// putOut closes the connection of a guest. The caller holds the lock.
func (r *room) putOut(e *list.Element) {
	g := e.Value.(*guest)
	r.remove(g)
	_ = g.conn.Close() // it is given up anyway
}

// remove takes a guest off the lists. It may be called several times. The caller holds the
// lock.
func (r *room) remove(g *guest) {
	if g.place == nil {
		return
	}
	of := r.byAddress[g.address]
	of.Remove(g.place)
	g.place = nil
	r.n--
	r.ranking.less(g.address)
	if of.Len() == 0 {
		delete(r.byAddress, g.address)
	}
}

// addressOf returns what counts as one address; see [Prefix].
func addressOf(conn net.Conn) netip.Prefix {
	at, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return Prefix(at.AddrPort().Addr())
}
