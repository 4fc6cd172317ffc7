package mesh_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// hold opens a connection by an identity of a root and has one answer on it, after
// which it stays open.
func hold(address string, by *root) *tls.Conn {
	cfg := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"mesh"}, Certificates: []tls.Certificate{*by.leaf("spiffe://" + shop + "/web")}}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", address, cfg)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = conn.Close() })
	Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: backend\r\n\r\n"))
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	answer := make([]byte, 12)
	_, err = io.ReadFull(conn, answer)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, string(answer)).To(Equal("HTTP/1.1 200"))
	return conn
}

var _ = Describe("a new authority", Ordered, core, func() {
	It("is taken into use three times under load without a failed request; afterwards only the last is trusted", func() {
		w := newWorld("STRICT")
		first := w.start("backend-1", tags{service: "backend"})
		second := w.start("backend-2", tags{service: "backend"})
		// Each connection of a client to a TCP service is a handshake of its own.
		work := framework.StartWorkload("files-1")
		files := w.join(w.around("files-1", work, work.Port, tags{service: "files", protocol: "tcp"}))
		web := w.start("web-1", tags{service: "web"}, "backend", "files")
		all := []*member{web, first, second, files}
		w.ready(all...)
		answers(web.to("backend"), 200)
		answers(web.to("files"), 200)

		load := framework.StartTraffic(web.to("backend"), http.Header{}, 1)
		fresh := framework.StartConnections(web.to("files"), http.Header{}, 2, 10)
		var last *root
		for n := range 3 {
			former := last
			last = newRoot()
			before := web.Stat("cluster.files.ssl.handshake")
			since := time.Now()
			var idle, tunnel *tls.Conn
			if former != nil {
				idle, tunnel = hold(first.inbound(), former), hold(files.inbound(), former)
				// A proxy that has not heard of the new authority holds everybody up:
				// nobody may have a certificate that it would refuse.
				files.Signal(syscall.SIGSTOP)
				w.rotate(last)
				trusting := func() bool { _, roots := web.trust(); return len(roots) == 2 }
				Eventually(trusting, patience, 10*time.Millisecond).Should(BeTrue())
				fresh.Served(100)
				identity, _ := web.trust()
				Expect(identity.CheckSignatureFrom(former.cert)).To(Succeed())
				files.Signal(syscall.SIGCONT)
			} else {
				w.rotate(last)
			}
			measured(fmt.Sprintf("rotation %d complete after", n+1), since, func() bool {
				for _, m := range all {
					identity, roots := m.trust()
					if len(roots) != 1 || !roots[0].Equal(last.cert) || identity.CheckSignatureFrom(last.cert) != nil {
						return false
					}
				}
				return true
			})
			fresh.Served(100)
			load.Served(100)
			Expect(web.Stat("cluster.files.ssl.handshake")).To(BeNumerically(">", before))
			Expect(handshake(first.inbound(), last.leaf("spiffe://"+shop+"/web"))).To(Succeed())
			if former != nil {
				for name, conn := range map[string]*tls.Conn{"HTTP": idle, "TCP": tunnel} {
					Expect(conn.SetReadDeadline(time.Now().Add(patience))).To(Succeed())
					_, err := io.Copy(io.Discard, conn)
					var late net.Error
					Expect(errors.As(err, &late) && late.Timeout()).To(BeFalse(), "an open connection of "+name+" outlives the root that proved it")
				}
				Expect(handshake(first.inbound(), former.leaf("spiffe://"+shop+"/web"))).NotTo(Succeed(), "the former authority counts no more")
			}
		}
		none(load)
		none(fresh)
		// A retry would have hidden a handshake that failed; the proxies have not
		// counted one. The first backend is where the test itself was refused.
		for _, m := range []*member{web, second, files} {
			for name, n := range m.Stats() {
				if strings.HasSuffix(name, ".ssl.fail_verify_error") || strings.HasSuffix(name, ".ssl.connection_error") {
					Expect(n).To(BeZero(), m.Name+" "+name)
				}
			}
		}
		identity, _ := first.trust()
		pool := x509.NewCertPool()
		pool.AddCert(last.cert)
		_, err := identity.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		Expect(err).NotTo(HaveOccurred())
		Expect(identity.URIs[0].String() + " " + identity.URIs[len(identity.URIs)-1].String()).To(ContainSubstring("spiffe://" + shop + "/backend"))
		Expect(w.overview("backend-1").Insight.MTLS.Regenerations).To(BeNumerically(">=", 4), "one at the start and one for each rotation")
	})
})
