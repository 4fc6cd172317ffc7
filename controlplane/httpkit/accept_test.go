package httpkit

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// conversations is a listener of connections in memory. Its first calls of Accept fail.
type conversations struct {
	fails  []error
	conns  chan net.Conn
	closed chan struct{}
}

func converse(fails ...error) *conversations {
	return &conversations{fails: fails, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (c *conversations) Accept() (net.Conn, error) {
	if len(c.fails) > 0 {
		err := c.fails[0]
		c.fails = c.fails[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	select {
	case conn := <-c.conns:
		return conn, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

func (c *conversations) Close() error   { close(c.closed); return nil }
func (c *conversations) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

// dial connects from an address.
func (c *conversations) dial(ip net.IP) net.Conn {
	client, server := net.Pipe()
	c.conns <- addressed{server, &net.TCPAddr{IP: ip, Port: 1}}
	return client
}

type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }

// repeated returns an error n times.
func repeated(err error, n int) (all []error) {
	for range n {
		all = append(all, err)
	}
	return all
}

// TestAcceptGoesOn: too many open files, or too little memory, do not end a listener. It
// accepts again as soon as it can.
func TestAcceptGoesOn(t *testing.T) {
	for _, failure := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		t.Run(failure.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cert, pool := certificate(t)
				ln := converse(repeated(failure, 20)...)
				grpcLn, httpLn := Split(ln, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, slog.New(slog.DiscardHandler))
				served := make(chan error, 1)
				go func() {
					conn, err := httpLn.Accept()
					if err == nil {
						err = conn.(*tls.Conn).NetConn().Close()
					}
					served <- err
				}()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				client, server := net.Pipe()
				select {
				case ln.conns <- addressed{server, ln.Addr()}:
					if err := tls.Client(client, &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}).HandshakeContext(ctx); err != nil {
						t.Errorf("handshake: %v", err)
					}
				case <-ctx.Done():
					t.Error("no connection is accepted any more")
				}
				_ = client.Close()
				if err := <-served; err != nil {
					t.Errorf("the half ended: %v", err)
				}
				_, _ = grpcLn.Close(), httpLn.Close()
			})
		})
	}
}

// TestAcceptPauseEndsWithClose: closing waits neither for a pause nor for the end of the
// failure.
func TestAcceptPauseEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert, _ := certificate(t)
		ln := converse(repeated(syscall.EMFILE, 1000)...)
		grpcLn, httpLn := Split(ln, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, slog.New(slog.DiscardHandler))
		synctest.Wait()
		_, _ = grpcLn.Close(), httpLn.Close()
		if _, err := httpLn.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
	})
}

// TestHelloIsLetGo: the memory of the ClientHello, up to 16 KiB, is not kept for the life of
// a connection.
func TestHelloIsLetGo(t *testing.T) {
	client, server := net.Pipe()
	defer func() { _, _ = client.Close(), server.Close() }()
	g := &greeted{Conn: server, hello: make([]byte, 100)}
	for _, size := range []int{60, 60} {
		if _, err := g.Read(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if g.hello != nil {
		t.Errorf("the hello is kept, %d bytes", cap(g.hello))
	}
}
