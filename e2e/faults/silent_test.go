package faults_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// silentClients is how many connections strangers hold at the data-plane port.
const silentClients = 1500

// silence keeps connections open from an address that say first and nothing else;
// whenever one is closed another takes its place. held counts those that are open,
// opened all that ever were.
func silence(from, address string, first []byte) (held, opened *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	held, opened = new(atomic.Int64), new(atomic.Int64)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	var work sync.WaitGroup
	for range silentClients {
		work.Go(func() {
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", address)
				if err != nil {
					continue
				}
				end := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = conn.Write(first)
				opened.Add(1)
				held.Add(1)
				_, _ = io.Copy(io.Discard, conn)
				held.Add(-1)
				end()
				_ = conn.Close()
			}
		})
	}
	return held, opened, func() { cancel(); work.Wait() }
}

// clientHello is what a client of TLS says first.
func clientHello() []byte {
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12}).Handshake()
	}()
	head := make([]byte, 5)
	_, err := io.ReadFull(server, head)
	Expect(err).NotTo(HaveOccurred())
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	_, err = io.ReadFull(server, body)
	Expect(err).NotTo(HaveOccurred())
	Expect(client.Close()).To(Succeed())
	Expect(server.Close()).To(Succeed())
	<-done
	return append(head, body...)
}

var _ = Describe("strangers who hold connections to the data-plane port", func() {
	It("keep no gateway from issuing, from joining and from hearing of revocations", func() {
		c := framework.NewControlPlane("run").Start()
		f := framework.NewFixture(c)
		old := framework.StartGateway(c, "old")
		hello := clientHello()
		for i, tc := range []struct {
			what, from string
			first      []byte
		}{
			{"that say nothing, from the address of the gateways", "127.0.0.1", nil},
			{"that say half a ClientHello, from there", "127.0.0.1", hello[:len(hello)/2]},
			{"that say a ClientHello and nothing after it, from elsewhere", "127.0.0.3", hello},
		} {
			By(tc.what)
			begun := time.Now()
			held, opened, stop := silence(tc.from, fmt.Sprintf("127.0.0.1:%d", c.Data), tc.first)
			stop = sync.OnceFunc(stop)
			DeferCleanup(stop)
			Eventually(opened.Load, soon, 10*time.Millisecond).Should(BeNumerically(">=", silentClients))
			peak := held.Load()
			fresh := framework.StartGateway(c, fmt.Sprintf("fresh-%d", i))
			joined := time.Since(begun)
			for _, g := range []*framework.Gateway{old, fresh} {
				Eventually(func() error { _, err := f.Mint(g.HTTPS); return err }, framework.ReadyTimeout, 50*time.Millisecond).Should(Succeed(), g.Name)
				for range 20 {
					token := f.MustMint(g.HTTPS)
					Expect(f.Status(old.HTTP, token)).To(Equal(200))
					Expect(f.Status(fresh.HTTP, token)).To(Equal(200))
					f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
					Expect(f.Status(old.HTTP, token)).To(Equal(401))
					Expect(f.Status(fresh.HTTP, token)).To(Equal(401))
				}
			}
			AddReportEntry(tc.what, fmt.Sprintf("%d connections at once, %d in %v; a gateway joined after %v", peak, opened.Load(), time.Since(begun), joined))
			stop()
			fresh.Stop()
		}
	})
})
