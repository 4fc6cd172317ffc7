package httpkit

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// visit opens a connection and makes a request over it. gone is closed when the server ends
// the connection.
func visit(t *testing.T, ln *conversations, ip string, path string, cfg *tls.Config) (conn *tls.Conn, gone chan struct{}) {
	t.Helper()
	conn = tls.Client(ln.dial(net.ParseIP(ip)), cfg)
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	gone = make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = conn.NetConn().Close()
		close(gone)
	}()
	synctest.Wait()
	return conn, gone
}

func isGone(gone chan struct{}) bool {
	synctest.Wait()
	select {
	case <-gone:
		return true
	default:
		return false
	}
}

// serveVisitors serves an API and a link-like handler, /link, on the HTTP half.
func serveVisitors(t *testing.T, run func(ln *conversations, s *Server, anonymous, certified *tls.Config)) {
	synctest.Test(t, func(t *testing.T) {
		cert, pool := certificate(t)
		ln := converse()
		grpcLn, httpLn := Split(ln, &tls.Config{
			Certificates: []tls.Certificate{cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool, MinVersion: tls.VersionTLS12,
		}, slog.New(slog.DiscardHandler))
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/link" {
				WriteMessage(w, 200, "ok")
				return
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.(*tls.Conn).NetConn().Close()
		})
		s := NewServer("test", h, slog.New(slog.DiscardHandler), Limits{IdleTimeout: time.Hour, Anonymous: true})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, httpLn) }()
		anonymous := &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}
		certified := anonymous.Clone()
		certified.Certificates = []tls.Certificate{cert}
		run(ln, s, anonymous, certified)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = grpcLn.Close()
	})
}

// TestAnonymousConnectionsEndSoon: a connection without a certificate may be idle for a
// minute after its last request. A connection with a certificate, or a link, may be idle for
// longer.
func TestAnonymousConnectionsEndSoon(t *testing.T) {
	serveVisitors(t, func(ln *conversations, _ *Server, anonymous, certified *tls.Config) {
		nobody, nobodyGone := visit(t, ln, "192.0.2.1", "/", anonymous)
		gateway, gatewayGone := visit(t, ln, "192.0.2.1", "/", certified)
		link, linkGone := visit(t, ln, "192.0.2.1", "/link", anonymous)
		time.Sleep(anonymousIdle - time.Second)
		if isGone(nobodyGone) {
			t.Error("an anonymous connection ends too soon")
		}
		if _, err := io.WriteString(nobody, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Error(err)
		}
		time.Sleep(anonymousIdle - time.Second)
		if isGone(nobodyGone) {
			t.Error("a request does not count")
		}
		time.Sleep(2 * time.Second)
		if !isGone(nobodyGone) {
			t.Error("an idle anonymous connection is kept")
		}
		time.Sleep(50 * time.Minute)
		if isGone(gatewayGone) || isGone(linkGone) {
			t.Error("a gateway's connection, or a link, ended")
		}
		for _, conn := range []*tls.Conn{nobody, gateway, link} {
			_ = conn.NetConn().Close()
		}
	})
}

// TestAnonymousConnectionsAreBounded: the bound holds for each address. The connection whose
// last request was longest ago is closed.
func TestAnonymousConnectionsAreBounded(t *testing.T) {
	serveVisitors(t, func(ln *conversations, s *Server, anonymous, certified *tls.Config) {
		s.visitors.room.each = 2
		var conns []*tls.Conn
		var gone []chan struct{}
		for _, v := range []struct {
			ip, path string
			cfg      *tls.Config
		}{
			{"192.0.2.1", "/", certified}, {"192.0.2.1", "/link", anonymous}, {"192.0.2.2", "/", anonymous},
			{"192.0.2.1", "/", anonymous}, {"192.0.2.1", "/", anonymous},
		} {
			conn, left := visit(t, ln, v.ip, v.path, v.cfg)
			conns, gone = append(conns, conn), append(gone, left)
		}
		if _, err := io.WriteString(conns[3], "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		conn, left := visit(t, ln, "192.0.2.1", "/", anonymous)
		conns, gone = append(conns, conn), append(gone, left)
		for i, want := range []bool{false, false, false, false, true, false} {
			if isGone(gone[i]) != want {
				t.Errorf("connection %d is gone: %t", i, !want)
			}
		}
		for i, conn := range conns {
			_ = conn.NetConn().Close()
			<-gone[i]
		}
		synctest.Wait()
		if n := len(s.visitors.open); n != 0 || s.visitors.room.n != 0 {
			t.Errorf("%d are kept", n)
		}
	})
}
