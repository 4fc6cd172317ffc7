package httpkit

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// oneConn is a listener for one existing connection.
type oneConn struct {
	conns chan net.Conn
	net.Listener
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// TestHijackedConnectionsEndWithoutAGoodbye: closing does not wait, even if nothing can be
// written because the peer does not read.
func TestHijackedConnectionsEndWithoutAGoodbye(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	ours, theirs := net.Pipe() // it buffers nothing
	ln := &oneConn{conns: make(chan net.Conn, 1), Listener: certified.Listener}
	ln.conns <- tls.Server(ours, &tls.Config{
		Certificates: certified.TLS.Certificates, SessionTicketsDisabled: true, MinVersion: tls.VersionTLS13,
	})
	closed := make(chan error, 1)
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := Hijack(w)
		if err == nil {
			err = conn.Close() // a goodbye that cannot be sent would be an error
		}
		closed <- err
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	peer := tls.Client(theirs, &tls.Config{InsecureSkipVerify: true})
	if _, err := io.WriteString(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	close(ln.conns)
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	_ = server.Close()
}
