package httpkit

import (
	"errors"
	"io"
	"net"
)

// TLS records, RFC 8446 section 5.1 and 4.
const (
	recordHeader    = 5
	recordHandshake = 22
	maxRecord       = 1 << 14
	typeClientHello = 1
)

var errNoHello = errors.New("the connection does not begin with a ClientHello")

// readHello reads the first record of a connection, which must begin a ClientHello.
func readHello(conn net.Conn) ([]byte, error) {
	head := make([]byte, recordHeader, 1<<10)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	n := int(head[3])<<8 | int(head[4])
	if head[0] != recordHandshake || head[1] != 3 || n == 0 || n > maxRecord {
		return nil, errNoHello
	}
	hello := append(head, make([]byte, n)...)
	if _, err := io.ReadFull(conn, hello[recordHeader:]); err != nil {
		return nil, err
	}
	if hello[recordHeader] != typeClientHello {
		return nil, errNoHello
	}
	return hello, nil
}

// greeted is a connection whose first record has already been read.
type greeted struct {
	net.Conn
	hello []byte
	pace  *pace // during the handshake
}

// Read implements net.Conn. Until the hello and the pace are over, only the handshake reads,
// so no lock is needed.
func (g *greeted) Read(b []byte) (int, error) {
	if len(g.hello) > 0 {
		n := copy(b, g.hello)
		if g.hello = g.hello[n:]; len(g.hello) == 0 {
			g.hello = nil // the connection may last for months
		}
		return n, nil
	}
	if g.pace == nil {
		return g.Conn.Read(b)
	}
	g.pace.wait()
	n, err := g.Conn.Read(b)
	if err != nil {
		return n, err
	}
	return n, g.pace.work()
}
