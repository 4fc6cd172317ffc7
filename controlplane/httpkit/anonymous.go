package httpkit

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// anonymousIdle is how long an anonymous connection may be without a request.
	anonymousIdle = time.Minute
	// Bounds of anonymous connections, in all and from one address.
	anonymousTotal, anonymousEach = 4096, 512
)

// visitors are the anonymous connections of a server: those without a verified
// client certificate that were not hijacked, as links are once they have shown
// their token. They are bounded, the newest takes the place of the one whose last
// request is longest ago, and they end soon when they are idle: only peers that
// the server knows may keep something of it for long.
type visitors struct {
	room *room
	mu   sync.Mutex
	open map[net.Conn]*visitor
}

// visitor is one anonymous connection. Its states follow each other, so that it
// needs no lock.
type visitor struct {
	raw   net.Conn // below TLS, for the end of TLS waits for the peer
	leave func()
	idle  *time.Timer // closes the connection; nil before it was idle
}

func newVisitors() *visitors {
	return &visitors{room: newRoom(anonymousTotal, anonymousEach), open: map[net.Conn]*visitor{}}
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

// begin takes a connection in if it is anonymous.
func (v *visitors) begin(conn net.Conn) {
	raw := conn
	if t, ok := conn.(*tls.Conn); ok {
		if len(t.ConnectionState().VerifiedChains) > 0 {
			return
		}
		raw = t.NetConn()
	}
	v.mu.Lock()
	v.open[conn] = &visitor{raw: raw, leave: v.room.enter(raw)}
	v.mu.Unlock()
}

// rest begins the idle time.
func (o *visitor) rest() {
	if o.idle == nil {
		o.idle = time.AfterFunc(anonymousIdle, func() { _ = o.raw.Close() }) // the server sees it
		return
	}
	o.idle.Reset(anonymousIdle)
}
