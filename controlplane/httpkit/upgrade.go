package httpkit

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
)

// Hijack takes the connection of a request over, as [http.ResponseController.Hijack]
// does. Its Close ends it at once and says no goodbye: that of TLS waits for five seconds
// for a peer which does not read, and so would everybody who needs the lock of whoever
// closes.
func Hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if secure, ok := conn.(*tls.Conn); ok {
		conn = abrupt{secure}
	}
	return conn, rw, err
}

// abrupt is a connection without the goodbye.
type abrupt struct{ *tls.Conn }

// Close implements [net.Conn].
func (c abrupt) Close() error { return c.NetConn().Close() }
