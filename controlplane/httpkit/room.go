package httpkit

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// room holds connections that have not shown yet that they are worth keeping. It
// is bounded in total and for each address. Nobody waits to get in: whoever comes
// when it is full takes the place of the one that was there longest of the address
// that has most, for whoever means well leaves it within a round trip, and whoever is
// silent stays. So a crowd behind one address has as much room as there is, and puts
// out nobody whose address has less.
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

// enter takes a connection in and returns how it leaves, which may be called after
// it was put out. Whoever is put out finds its connection closed.
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

// putOut closes the connection of a guest. The lock is held.
func (r *room) putOut(e *list.Element) {
	g := e.Value.(*guest)
	r.remove(g)
	_ = g.conn.Close() // it is given up, whatever Close says
}

// remove takes a guest off the lists, however often it is called. The lock is held.
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

// addressOf is what counts as one address: all of IPv4, the network of 64 bits that
// one subscriber has of IPv6.
func addressOf(conn net.Conn) netip.Prefix {
	at, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := at.AddrPort().Addr().Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
