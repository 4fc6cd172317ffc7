package httpkit

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
)

// Hijack takes over the connection of a request, as [http.ResponseController.Hijack] does.
// Close of the connection ends it at once and sends no goodbye. The goodbye of TLS waits for
// five seconds for a peer that does not read, and so would everybody who needs a lock that
// the caller of Close holds.
func Hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if secure, ok := conn.(*tls.Conn); ok {
		conn = abrupt{secure}
	}
	return conn, rw, err
}

// abrupt is a connection that ends without a goodbye.
type abrupt struct{ *tls.Conn }

// Close implements [net.Conn].
func (c abrupt) Close() error { return c.NetConn().Close() }
