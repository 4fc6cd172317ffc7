package assembly

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
)

// onePipe is a listener with one connection in memory.
type onePipe struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (p onePipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conn:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p onePipe) Close() error   { close(p.closed); return nil }
func (p onePipe) Addr() net.Addr { return &net.TCPAddr{} }

// TestStreamlessConnectionsEnd: the gRPC server ends connections that send nothing, and
// connections that answer every ping but open no stream.
func TestStreamlessConnectionsEnd(t *testing.T) {
	for _, preface := range []string{"", http2.ClientPreface} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			ln := onePipe{make(chan net.Conn, 1), make(chan struct{})}
			ln.conn <- server
			s := grpc.NewServer(adsOptions()...)
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			begun := time.Now()
			if err := client.SetDeadline(begun.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			framer := http2.NewFramer(client, client)
			if preface != "" {
				go func() {
					_, _ = client.Write([]byte(preface))
					_ = http2.NewFramer(client, nil).WriteSettings() // other errors show in the loop below
				}()
			}
			for {
				f, err := framer.ReadFrame()
				if err != nil {
					break
				}
				if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
					_ = framer.WritePing(true, p.Data)
				}
			}
			if kept := time.Since(begun); kept > 70*time.Second {
				t.Errorf("with preface %q it is kept for %v", preface, kept)
			}
			_ = client.Close()
			s.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
