package httpkit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// silence keeps n connections open that send only first. Whenever one is closed, another
// takes its place.
func silence(t *testing.T, address string, n int, first []byte) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var begun sync.WaitGroup
	begun.Add(n)
	for range n {
		work.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			for ctx.Err() == nil {
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
				if err != nil {
					continue
				}
				end := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = conn.Write(first)
				once()
				_, _ = io.Copy(io.Discard, conn)
				end()
				_ = conn.Close()
			}
		})
	}
	begun.Wait()
	return func() { cancel(); work.Wait() }
}

// clientHello returns the first message of a client.
func clientHello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer func() { _ = server.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12}).Handshake()
	}()
	hello, err := readHello(server)
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	<-done
	return hello
}

// TestSilentClientsKeepNobodyOut: with 1,500 connections that send nothing or half a
// ClientHello, a client that shakes hands is served, on both halves and even from the same
// address. With as many connections that send a ClientHello and nothing else, a client of
// another address is served.
func TestSilentClientsKeepNobodyOut(t *testing.T) {
	hello := clientHello(t)
	for name, first := range map[string][]byte{"nothing": nil, "half a header": hello[:3], "half a hello": hello[:40], "a hello": hello} {
		t.Run(name, func(t *testing.T) {
			cert, pool := certificate(t)
			grpcLn, httpLn := Split(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { WriteMessage(w, 200, "issued") })
			go func() { ended <- NewServer("test", h, slog.New(slog.DiscardHandler), Limits{}).Serve(ctx, httpLn) }()
			var streams sync.WaitGroup
			streams.Go(func() {
				for {
					conn, err := grpcLn.Accept()
					if err != nil {
						return
					}
					_ = conn.Close()
				}
			})
			stop := silence(t, httpLn.Addr().String(), 1500, first)
			for range 20 {
				from := net.IPv4(127, 0, 0, 1)
				if name == "a hello" {
					from = net.IPv4(127, 0, 0, 2)
				}
				issue(t, from, httpLn.Addr().String(), pool)
				reconnect(t, from, grpcLn.Addr().String(), pool)
			}
			stop()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			_ = grpcLn.Close()
			streams.Wait()
		})
	}
}

// issue makes a request over a new connection.
func issue(t *testing.T, from net.IP, address string, pool *x509.CertPool) {
	t.Helper()
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	transport := &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}}
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get("https://" + address + "/")
	if err != nil {
		t.Errorf("issue: %v", err)
		return
	}
	_ = resp.Body.Close()
}

// reconnect opens a connection as for a stream of gRPC.
func reconnect(t *testing.T, from net.IP, address string, pool *x509.CertPool) {
	t.Helper()
	d := &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}, Config: &tls.Config{
		RootCAs: pool, ServerName: "localhost", NextProtos: []string{protoHTTP2}, MinVersion: tls.VersionTLS12,
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		t.Errorf("reconnect: %v", err)
		return
	}
	_ = conn.Close()
}

// TestRoom: bounds hold in total and for each address, and the oldest is put out.
func TestRoom(t *testing.T) {
	r := newRoom(3, 2)
	at := func(ip string) *fakeConn { return &fakeConn{remote: &net.TCPAddr{IP: net.ParseIP(ip)}} }
	a1, a2, a3 := at("192.0.2.1"), at("192.0.2.1"), at("::ffff:192.0.2.1")
	b1, b2 := at("2001:db8::1"), at("2001:db8::2:1")
	leave := r.enter(a1)
	r.enter(a2)
	r.enter(a3)
	if !a1.closed || a2.closed || a3.closed {
		t.Error("the third of an address does not take the place of the first")
	}
	leave() // of one that was already put out
	leaveB := r.enter(b1)
	r.enter(b2)
	if !a2.closed || b1.closed {
		t.Error("the fourth does not take the place of the oldest")
	}
	leaveB()
	leaveB()
	r.enter(at("198.51.100.1"))
	if a3.closed || b2.closed || r.n != 3 || len(r.byAddress) != 3 {
		t.Errorf("%d are there, of %d addresses", r.n, len(r.byAddress))
	}
}

// TestFullRoomIsSharedByAddresses: a connection that is alone at its address stays, even
// though it came first and another address opens one after the other.
func TestFullRoomIsSharedByAddresses(t *testing.T) {
	r := newRoom(4, 4)
	alone := from("192.0.2.1")
	r.enter(alone)
	var crowd []*fakeConn
	for range 10 {
		c := from("198.51.100.1")
		crowd = append(crowd, c)
		r.enter(c)
	}
	if alone.closed {
		t.Error("the one of another address is put out")
	}
	for i, c := range crowd {
		if c.closed != (i < 7) {
			t.Errorf("connection %d of the crowd: closed %t", i, c.closed)
		}
	}
}

// TestFleetBehindOneAddress: 5,000 proxies that come at once through one address are not
// turned away, neither while they are silent nor while they wait for their handshake. A
// client of another address gets one of the first turns.
func TestFleetBehindOneAddress(t *testing.T) {
	cert, _ := certificate(t)
	grpcLn, httpLn := Split(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, slog.New(slog.DiscardHandler))
	defer func() { _, _ = grpcLn.Close(), httpLn.Close() }()
	s := grpcLn.(*half).s
	var turns []*turn
	for range 5000 {
		c := from("192.0.2.1")
		defer s.silent.enter(c)()
		if turns = append(turns, s.shaking.ask(addressOf(c))); c.closed {
			t.Fatal("a silent one is put out")
		}
	}
	granted := 0
	for i, turn := range turns {
		select {
		case <-turn.begin:
			if !turn.granted {
				t.Fatalf("%d is refused", i)
			}
			granted++
		default:
		}
	}
	if granted != handshakesEach {
		t.Errorf("%d shake hands at once", granted)
	}
	if other := s.shaking.ask(addressOf(from("198.51.100.1"))); !other.granted {
		t.Error("another address waits")
	}
}

type fakeConn struct {
	net.Conn
	remote net.Addr
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return c.remote }
func (c *fakeConn) Close() error         { c.closed = true; return nil }
