package sidecar_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/resource"
)

const (
	backendInbound = "inbound:127.0.0.2:8080"
	webOutbound    = "outbound:127.0.0.1:10001"
)

// TestNobodyResumesASession: who has a ticket proves nothing by it. Envoy looks at no
// certificate of a session that is resumed, so one that has ended since would open
// connections for as long as its ticket is good.
func TestNobodyResumesASession(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	w.under(mesh.ModeStrict)
	ca := newCertifier()
	b := static(t, w.joined("backend-1"))
	b.StaticResources.Secrets = ca.secrets("backend")
	address := runAt(t, b, backendInbound)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			client := &tls.Config{
				InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, ServerName: "backend",
				Certificates: []tls.Certificate{ca.identity("web")}, ClientSessionCache: tls.NewLRUClientSessionCache(1),
			}
			for i := range 2 {
				conn := tls.Client(dialed(t, address), client)
				// The workload is not there; the answer says that the certificate was taken,
				// and behind it is whatever ticket there is.
				if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: backend\r\nConnection: close\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if answer, err := io.ReadAll(conn); len(answer) == 0 {
					t.Fatalf("connection %d is not answered: %v", i+1, err)
				}
				if conn.ConnectionState().DidResume {
					t.Error("a session is resumed")
				}
			}
		})
	}
}

// TestUnfinishedHandshakesEnd: a stranger who begins to prove who it is has no place at an
// inbound for long.
func TestUnfinishedHandshakesEnd(t *testing.T) {
	for _, protocol := range []string{"http", "tcp"} {
		for _, mode := range []string{mesh.ModeStrict, mesh.ModePermissive} {
			t.Run(protocol+" "+mode, func(t *testing.T) {
				w := newWorld(t)
				pair(protocol)(w)
				w.under(mode)
				b := static(t, w.joined("backend-1"))
				for _, l := range b.StaticResources.Listeners {
					for _, c := range l.GetFilterChains() {
						if c.GetName() == "mesh" && c.GetTransportSocketConnectTimeout() != nil {
							c.TransportSocketConnectTimeout = durationpb.New(time.Second / 2)
						}
					}
				}
				address := runAt(t, b, backendInbound)
				conn := dialed(t, address)
				hello := helloOf(t)
				if mode == mesh.ModeStrict {
					hello = hello[:6]
				}
				if _, err := conn.Write(hello); err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the inbound waits for the rest")
				}
			})
		}
	}
}

// helloOf is how a proxy of the mesh begins to speak.
func helloOf(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	go func() {
		// It ends with the pipe.
		_ = tls.Client(ours, &tls.Config{ServerName: "backend", NextProtos: []string{mesh.ALPN}}).Handshake()
		_ = ours.Close()
	}()
	hello := make([]byte, 16<<10)
	n, err := theirs.Read(hello)
	if err != nil {
		t.Fatal(err)
	}
	return hello[:n]
}

// TestCallersOfTCPAreBound: Envoy's clusters bound connections of HTTP alone, so the
// outbound bounds those of TCP, where a certificate may have proved them.
func TestCallersOfTCPAreBound(t *testing.T) {
	for mode, want := range map[string]time.Duration{"": 0, mesh.ModePermissive: mesh.DefaultLeafLife, mesh.ModeStrict: mesh.DefaultLeafLife} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			pair("tcp")(w)
			if mode != "" {
				w.under(mode)
			}
			l := load(t, w.joined("web-1").Get(resource.Listener, webOutbound), new(listenerv3.Listener))
			var proxy tcpv3.TcpProxy
			if err := l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&proxy); err != nil {
				t.Fatal(err)
			}
			if got := proxy.GetMaxDownstreamConnectionDuration().AsDuration(); got != want {
				t.Errorf("connections live %s, want %s", got, want)
			}
		})
	}
}

// TestCallersOfTCPEndConnections: a server that never closes keeps no connection of TCP
// past its bound, and what it sees of a caller it sees by TLS 1.3, in which no certificate
// can be read on the way.
func TestCallersOfTCPEndConnections(t *testing.T) {
	w := newWorld(t)
	pair("tcp")(w)
	w.under(mesh.ModeStrict)
	ca := newCertifier()
	b := static(t, w.joined("web-1"))
	b.StaticResources.Secrets = ca.secrets("web")
	server := must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{ca.identity("backend")}, NextProtos: []string{mesh.ALPN}, ClientAuth: tls.RequireAnyClientCert,
	}))
	lead(b, "backend", server.Addr())
	for _, l := range b.StaticResources.Listeners {
		edit(t, l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), func(p *tcpv3.TcpProxy) {
			if p.GetMaxDownstreamConnectionDuration() != nil {
				p.MaxDownstreamConnectionDuration = durationpb.New(5 * time.Second) // in which it is answered, on a busy machine too
			}
		})
	}
	spoken := make(chan uint16, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := server.Accept()
		if err != nil {
			return // closed
		}
		_ = conn.(*tls.Conn).Handshake() // the version says how it went
		spoken <- conn.(*tls.Conn).ConnectionState().Version
		_, _ = io.Copy(conn, conn) // until the client ends it
		_ = conn.Close()
	}()
	conn := dialed(t, runAt(t, b, webOutbound))
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "x" {
		t.Errorf("the connection has brought %q and ended with %v", got, err)
	}
	_, _ = conn.Close(), server.Close() // whatever is still there
	<-done
	if got := <-spoken; got != tls.VersionTLS13 {
		t.Errorf("proxies speak %s", tls.VersionName(got))
	}
}
