package resolver_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/meshgate/meshgate/controlplane/resolver"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/naming"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open starts a server on a free port until the test ends.
func open(t *testing.T, known naming.Table, upstreams ...netip.AddrPort) (s *resolver.Server, at string) {
	t.Helper()
	var err error
	for range 20 { // a port that is free for TCP may not be free for UDP
		if s, err = resolver.Open(resolver.Options{Address: freePort(t), Upstreams: upstreams, Log: slog.New(slog.DiscardHandler)}); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Set(known)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, s.Address.String()
}

// freePort is a port that nobody else gets.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(free[0]))
}

// lookup asks a server as Go's own resolver does.
func lookup(t *testing.T, network, at, host string) []string {
	t.Helper()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, at)
	}}
	out, err := r.LookupHost(t.Context(), host)
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case e.IsNotFound:
			return []string{"none"}
		case e.IsTemporary:
			return []string{"fails"}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var known = naming.Table{"backend.mesh": netip.MustParseAddr("240.1.2.3"), "shop.example": netip.MustParseAddr("240.1.2.4")}

// TestNamesOfTheMesh: names of the mesh are answered over UDP and TCP, in any case. What is in
// the domain of the mesh and not known does not exist, and fails while nothing is known.
func TestNamesOfTheMesh(t *testing.T) {
	s, at := open(t, known, freePort(t)) // nobody answers there
	for _, network := range []string{"udp", "tcp"} {
		for host, want := range map[string]string{
			"backend.mesh.": "240.1.2.3", "BackEnd.Mesh.": "240.1.2.3", "shop.example.": "240.1.2.4", "other.mesh.": "none", "mesh.": "none", "other.example.": "fails",
		} {
			if diff := cmp.Diff([]string{want}, lookup(t, network, at, host)); diff != "" {
				t.Errorf("%s over %s (-want +got):\n%s", host, network, diff)
			}
		}
	}
	s.Set(naming.Table{"backend.mesh": netip.MustParseAddr("240.9.9.9")})
	if got := lookup(t, "udp", at, "backend.mesh."); got[0] != "240.9.9.9" {
		t.Errorf("after a change it is %v", got)
	}
	s.Set(nil)
	if got := lookup(t, "udp", at, "backend.mesh."); got[0] != "fails" {
		t.Errorf("while nothing is known it is %v", got)
	}
}

// query is a question with its type, of a client that speaks EDNS.
func query(t *testing.T, host string, of dnsmessage.Type, edns bool) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(host), Type: of, Class: dnsmessage.ClassINET}},
	}
	if edns {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(4096, 0, false); err != nil {
			t.Fatal(err)
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	out, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// exchange sends one packet and returns the answer.
func exchange(t *testing.T, at string, q []byte) []byte {
	t.Helper()
	c, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(q); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 65535)
	n, err := c.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return buffer[:n]
}

// TestNothingOfAType: a name that has no address of a family exists all the same. Some resolvers
// would otherwise take it for one that does not.
func TestNothingOfAType(t *testing.T) {
	_, at := open(t, known)
	for _, of := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeTXT, dnsmessage.TypeSRV, 65} {
		for _, edns := range []bool{false, true} {
			var m dnsmessage.Message
			if err := m.Unpack(exchange(t, at, query(t, "backend.mesh.", of, edns))); err != nil {
				t.Fatal(err)
			}
			if m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) != 0 || m.ID != 4711 || len(m.Questions) != 1 || !m.RecursionAvailable {
				t.Errorf("type %v: %+v", of, m)
			}
			if (len(m.Additionals) == 1) != edns {
				t.Errorf("type %v, EDNS %t: additional %v", of, edns, m.Additionals)
			}
		}
	}
}

// TestOthersArePassedOn: whatever else is asked reaches a resolver as it was sent, and its answer
// comes back as it is. A resolver that does not answer is passed over.
func TestOthersArePassedOn(t *testing.T) {
	var asked atomic.Pointer[[]byte]
	up, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	go func() {
		buffer := make([]byte, 65535)
		for {
			n, from, err := up.ReadFrom(buffer)
			if err != nil {
				return
			}
			q := append([]byte(nil), buffer[:n]...)
			asked.Store(&q)
			_, _ = up.WriteTo([]byte{0, 0, 0x80}, from) // for somebody else
			answer := append([]byte(nil), q...)
			answer[2] |= 0x80
			_, _ = up.WriteTo(append(answer, "and more"...), from)
		}
	}()
	_, at := open(t, known, freePort(t), netip.MustParseAddrPort(up.LocalAddr().String()))
	for _, of := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeMX, 65} {
		q := query(t, "mail.example.", of, true)
		got := exchange(t, at, q)
		if !bytes.Equal(*asked.Load(), q) {
			t.Errorf("type %v: another question was passed on", of)
		}
		if !bytes.HasSuffix(got, []byte("and more")) {
			t.Errorf("type %v: the answer is %x", of, got)
		}
	}
}

// TestPortInUse: a server that cannot listen says so, and keeps nothing open.
func TestPortInUse(t *testing.T) {
	s, _ := open(t, known)
	if again, err := resolver.Open(resolver.Options{Address: s.Address}); err == nil {
		again.Close()
		t.Error("two servers have one port")
	}
}

func TestMachineResolvers(t *testing.T) {
	got := resolver.MachineResolvers([]byte("# nameserver 1.1.1.1\nsearch a b\nnameserver 192.0.2.1\nnameserver\nnameserver  fe80::1%eth0 x\nnameserver no\n"))
	want := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("[fe80::1%eth0]:53")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("resolvers (-want +got):\n%s", diff)
	}
}

// FuzzAnswer: no packet ends the server.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 7, 'b', 'a', 'c', 'k', 'e', 'n', 'd', 4, 'm', 'e', 's', 'h', 0, 0, 1, 0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, q []byte) {
		reply, ours := resolver.Answer(q, known)
		if ours && len(reply) > 0 {
			var m dnsmessage.Message
			if err := m.Unpack(reply); err != nil || !m.Response {
				t.Errorf("answer %x: %v", reply, err)
			}
		}
	})
}
