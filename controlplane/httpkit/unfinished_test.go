package httpkit

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
)

// TestUnfinishedHandshakesKeepNobodyOut: clients of 35 addresses, or of as many IPv6
// networks as one attacker has, begin handshakes and finish none of them. A client of
// another address does not have to wait.
func TestUnfinishedHandshakesKeepNobodyOut(t *testing.T) {
	v4 := func(i int) net.IP { return net.IPv4(192, 0, 2, byte(i)) }
	v6 := func(i int) net.IP { return net.IP{0x20, 1, 0xd, 0xb8, 0, 0, byte(i >> 8), byte(i), 15: 1} }
	for _, tc := range []struct {
		name            string
		addresses, each int
		at              func(int) net.IP
	}{
		{"addresses of IPv4", 35, 64, v4},
		{"networks of IPv6, more than there is room for", 1000, 1, v6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hello := clientHello(t)
			synctest.Test(t, func(t *testing.T) {
				cert, pool := certificate(t)
				ln := converse()
				grpcLn, httpLn := Split(ln, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, slog.New(slog.DiscardHandler))
				grpcLn.(*half).s.begun.total = 500
				var work sync.WaitGroup
				for i := range tc.addresses * tc.each {
					conn := ln.dial(tc.at(i / tc.each))
					work.Go(func() {
						_, _ = conn.Write(hello)
						_, _ = io.Copy(io.Discard, conn)
						_ = conn.Close()
					})
				}
				synctest.Wait()
				work.Go(func() {
					for {
						conn, err := httpLn.Accept()
						if err != nil {
							return
						}
						_ = conn.(*tls.Conn).NetConn().Close()
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), shakingTimeout/2)
				defer cancel()
				client := ln.dial(net.IPv4(198, 51, 100, 1))
				if err := tls.Client(client, &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}).HandshakeContext(ctx); err != nil {
					t.Errorf("the honest client is kept out: %v", err)
				}
				_, _, _ = client.Close(), grpcLn.Close(), httpLn.Close()
				work.Wait()
			})
		})
	}
}

// TestQuota: addresses take turns. An address is bounded in its active and its waiting
// turns, and the one with the most waiting gives way.
func TestQuota(t *testing.T) {
	q := newQuota(2, 1, 4)
	a, b, c := addressOf(from("192.0.2.1")), addressOf(from("2001:db8::1")), addressOf(from("198.51.100.1"))
	a1, a2, a3, a4 := q.ask(a), q.ask(a), q.ask(a), q.ask(a)
	if !a1.granted || a2.granted {
		t.Error("an address has more than its bound")
	}
	b1 := q.ask(b)
	c1, c2 := q.ask(c), q.ask(c)
	if !b1.granted || c1.granted {
		t.Error("an address waits for another, or there are more than there may be")
	}
	if _, refused := <-a4.begin; refused || a4.granted || q.queued != 4 {
		t.Error("the newest of the address with most waiting is not refused")
	}
	q.end(a4) // of one that was refused
	q.end(a1)
	if !c1.granted && !a2.granted {
		t.Error("a slot is given back and nobody has it")
	}
	q.end(b1)
	if !c1.granted || !a2.granted {
		t.Error("addresses do not take turns")
	}
	q.end(a3) // of one that waits
	for _, turn := range []*turn{a2, c1, c2} {
		q.end(turn)
	}
	if q.active != 0 || q.queued != 0 || q.row.Len() != 0 || len(q.byAddress)+len(q.ranking.at)+len(q.ranking.levels) != 0 {
		t.Errorf("%d are active, %d wait, of %d addresses", q.active, q.queued, len(q.byAddress))
	}
}

// TestQuotaWaitEnds: the wait ends with the context, and leaves nothing behind.
func TestQuotaWaitEnds(t *testing.T) {
	q := newQuota(1, 1, 4)
	leave, ok := q.enter(t.Context(), from("192.0.2.1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, again := q.enter(ctx, from("192.0.2.1")); !ok || again {
		t.Errorf("first %t, second %t", ok, again)
	}
	leave()
	if len(q.byAddress) != 0 {
		t.Error("an address without users is kept")
	}
}

func from(ip string) *fakeConn { return &fakeConn{remote: &net.TCPAddr{IP: net.ParseIP(ip)}} }
