package revoke

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
)

// alone runs a test in a world without Redis. Its time is virtual, so that no lease, and no
// patience of the control plane, ends because the machine is busy.
func alone(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	aloneWith(t, nil, fn)
}

// aloneWith is alone with other options.
func aloneWith(t *testing.T, tweak func(*Options), fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, virtual: true, tweak: tweak}
		w.init(nil)
		fn(t, w)
	})
}

// reach opens a connection to the server of the world.
func (w *world) reach() net.Conn {
	w.t.Helper()
	dial := func() (net.Conn, error) { return net.Dial("tcp", w.url) }
	if w.virtual {
		dial = w.listen(nil).dial
	}
	conn, err := dial()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// listen serves connections that are no sockets: while anybody waits for a socket, virtual
// time does not pass.
func (w *world) listen(secured *tls.Config) *pipes {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	var l net.Listener = p
	if secured != nil {
		l = tls.NewListener(p, secured)
	}
	server, served := &http.Server{Handler: w.r}, make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until it is closed
	}()
	w.t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return p
}

// pipes listens for connections within the process.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// dial opens a connection.
func (p *pipes) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- local{far}:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements [net.Listener].
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements [net.Listener].
func (*pipes) Addr() net.Addr { return local{}.RemoteAddr() }

// local is a connection of this host.
type local struct{ net.Conn }

// RemoteAddr implements [net.Conn].
func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
