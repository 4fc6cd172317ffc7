package httpkit

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// anonymousIdle is how long an anonymous connection may stay without a request.
	anonymousIdle = time.Minute
	// Bounds of anonymous connections, in total and from one address.
	anonymousTotal, anonymousEach = 4096, 512
)

// visitors are the anonymous connections of a server: those without a verified client
// certificate. Hijacked connections do not count, such as links that have shown their token.
// The connections are bounded: a new one replaces the one whose last request was longest
// ago. They end soon when they are idle. Only peers that the server knows may hold its
// resources for long.
type visitors struct {
	// all says that connections with a certificate count, too.
	all  bool
	room *room
	mu   sync.Mutex
	open map[net.Conn]*visitor
}

// visitor is one anonymous connection. Its states follow each other, so it needs no lock.
type visitor struct {
	raw   net.Conn // below TLS, because ending TLS waits for the peer
	leave func()
	idle  *time.Timer // closes the connection; nil until it is first idle
}

func newVisitors(all bool) *visitors {
	return &visitors{all: all, room: newRoom(anonymousTotal, anonymousEach), open: map[net.Conn]*visitor{}}
}

// follow is the ConnState of a server.
func (v *visitors) follow(conn net.Conn, state http.ConnState) {
	if state == http.StateNew {
		v.begin(conn)
		return
	}
	v.mu.Lock()
	one := v.open[conn]
	if state == http.StateHijacked || state == http.StateClosed {
		delete(v.open, conn)
	}
	v.mu.Unlock()
	if one == nil {
		return // its peer is known
	}
	if state == http.StateIdle {
		one.rest()
		return
	}
	if one.idle != nil {
		one.idle.Stop()
	}
	one.leave()
	if state == http.StateActive {
		one.leave = v.room.enter(one.raw)
	}
}

// begin adds a connection if it is anonymous.
func (v *visitors) begin(conn net.Conn) {
	raw := conn
	if t, ok := conn.(*tls.Conn); ok {
		if !v.all && len(t.ConnectionState().VerifiedChains) > 0 {
			return
		}
		raw = t.NetConn()
	}
	v.mu.Lock()
	v.open[conn] = &visitor{raw: raw, leave: v.room.enter(raw)}
	v.mu.Unlock()
}

// rest starts the idle time.
func (o *visitor) rest() {
	if o.idle == nil {
		o.idle = time.AfterFunc(anonymousIdle, func() { _ = o.raw.Close() }) // the server notices
		return
	}
	o.idle.Reset(anonymousIdle)
}
