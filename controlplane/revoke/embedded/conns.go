package embedded

import (
	"container/list"
	"net"
	"sync"
)

const (
	// anonymous bounds the connections that have not shown a password. known bounds those
	// that have.
	anonymous = 256
	known     = 8192
	// forWriter of the known places are closed to readers, so that filters, however many,
	// cannot keep the control plane out.
	forWriter = 256
)

// conns holds the open connections. If there are too many without a password, a new one
// pushes out the oldest of them, so that silent connections do not block others for long.
// Connections with a password are never pushed out.
type conns struct {
	mu     sync.Mutex
	closed bool
	// waiting holds connections without a password, oldest first.
	waiting list.List
	places  map[net.Conn]*list.Element
	open    map[net.Conn]role
	readers int // number of readers in open
}

// add takes a new connection. It returns false if the server is closing.
func (c *conns) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.places == nil {
		c.places, c.open = map[net.Conn]*list.Element{}, map[net.Conn]role{}
	}
	if c.waiting.Len() >= anonymous {
		oldest := c.waiting.Remove(c.waiting.Front()).(net.Conn)
		delete(c.places, oldest)
		_ = oldest.Close() // its session notices
	}
	c.places[conn] = c.waiting.PushBack(conn)
	return true
}

// admit moves a connection to those with a password, or changes its role. It returns false
// if there are too many.
func (c *conns) admit(conn net.Conn, as role) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, again := c.open[conn]
	place := c.places[conn]
	switch {
	case again && was == as:
		return true
	case !again && (place == nil || len(c.open) >= known):
		return false
	case as == reader && c.readers >= known-forWriter:
		return false
	}
	if place != nil {
		c.waiting.Remove(place)
		delete(c.places, conn)
	}
	c.leave(conn)
	c.open[conn] = as
	if as == reader {
		c.readers++
	}
	return true
}

// leave removes a connection from those with a password. mu is held.
func (c *conns) leave(conn net.Conn) {
	if c.open[conn] == reader {
		c.readers--
	}
	delete(c.open, conn)
}

func (c *conns) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place := c.places[conn]; place != nil {
		c.waiting.Remove(place)
	}
	delete(c.places, conn)
	c.leave(conn)
}

// close closes every connection and refuses new ones.
func (c *conns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.places {
		_ = conn.Close()
	}
	for conn := range c.open {
		_ = conn.Close()
	}
}

func (c *conns) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.places) + len(c.open)
}
