package mesh_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// front ends TLS before a control plane, with certificates of an authority of its
// own, so that they can expire.
type front struct {
	cp   *framework.ControlPlane
	ln   net.Listener
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	leaf atomic.Pointer[tls.Certificate]
	// refused counts handshakes that clients broke off.
	refused atomic.Int64

	work sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool
}

func newFront(cp *framework.ControlPlane) *front {
	f := &front{cp: cp, open: map[net.Conn]bool{}}
	var err error
	f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	f.ca = f.certify(&x509.Certificate{
		Subject: pkix.Name{CommonName: "front"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}, nil)
	f.endsAt(time.Now().Add(time.Hour))
	f.ln, err = net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	f.work.Go(f.accept)
	DeferCleanup(func() {
		Expect(f.ln.Close()).To(Succeed())
		f.breakOff()
		f.work.Wait()
	})
	return f
}

// certify signs by the authority, or by the certificate itself while there is none.
func (f *front) certify(template, parent *x509.Certificate) *x509.Certificate {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, f.key.Public(), f.key)
	Expect(err).NotTo(HaveOccurred())
	c, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return c
}

// endsAt replaces the server's certificate by one that expires at a time.
func (f *front) endsAt(t time.Time) {
	c := f.certify(&x509.Certificate{
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: t,
		URIs:     []*url.URL{{Scheme: "spiffe", Host: "meshgate", Path: "/data-plane"}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, f.ca)
	f.leaf.Store(&tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: f.key})
}

// file has the authority.
func (f *front) file() string {
	path := filepath.Join(GinkgoT().TempDir(), "front.pem")
	Expect(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.ca.Raw}), 0o600)).To(Succeed())
	return path
}

func (f *front) port() int { return f.ln.Addr().(*net.TCPAddr).Port }

// breakOff ends every connection.
func (f *front) breakOff() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.open {
		_ = conn.Close() // its goroutine sees it
	}
}

func (f *front) accept() {
	for {
		conn, err := f.ln.Accept()
		if err != nil {
			return
		}
		f.work.Go(func() { f.serve(conn) })
	}
}

// serve passes one connection on, in the protocol that the client offers.
func (f *front) serve(raw net.Conn) {
	f.mu.Lock()
	f.open[raw] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.open, raw)
		f.mu.Unlock()
		_ = raw.Close()
	}()
	proto := "http/1.1"
	client := tls.Server(raw, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) > 0 && !slices.Contains(hello.SupportedProtos, proto) {
			proto = "h2"
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*f.leaf.Load()}, NextProtos: []string{proto}}, nil
	}})
	if err := client.Handshake(); err != nil {
		f.refused.Add(1)
		return
	}
	ca, err := os.ReadFile(f.cp.CAFile())
	if err != nil {
		return
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	server, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.cp.Data), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, NextProtos: []string{proto}})
	if err != nil {
		return // the control plane is away
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	_, _ = io.Copy(client, server)
	_ = raw.Close()
	both.Wait()
}

// holdings is what a proxy has, which is something, and how often it was told to
// take something away.
func holdings(stats map[string]int) map[string]int {
	out := map[string]int{}
	for _, key := range []string{
		"listener_manager.total_listeners_active", "listener_manager.listener_removed", "listener_manager.total_listeners_draining",
		"cluster_manager.active_clusters", "cluster_manager.cluster_removed",
	} {
		out[key] = stats[key]
	}
	ExpectWithOffset(1, out["listener_manager.total_listeners_active"]).To(BeNumerically(">", 0))
	return out
}

var _ = Describe("the certificate of the data-plane server", func() {
	It("expires, the control plane starts anew, and no proxy loses what it has; renewed, they converge", func() {
		cp := framework.NewControlPlane("run").Start()
		f := newFront(cp)
		w := adopt(cp, "STRICT")
		through := []string{"--cp-address", fmt.Sprintf("https://127.0.0.1:%d", f.port()), "--ca-cert-file", f.file()}
		enter := func(m *member) *member {
			w.Put("dataplanes", m.doc)
			m.Sidecar = framework.NewSidecar(w.cp, shop, m.doc["name"].(string), "", through...).Start()
			return m
		}
		backend := enter(w.describe("backend-1", tags{service: "backend"}))
		web := enter(w.describe("web-1", tags{service: "web"}, "backend", "plain"))
		plain := w.describe("plain-1", tags{service: "plain"})
		w.bareAt(plain, f.port(), f.file())
		admin := plain.doc["networking"].(map[string]any)["admin"].(map[string]any)["port"].(int)
		w.ready(web, backend)
		answers(web.to("backend"), 200)
		answers(web.to("plain"), 200)

		held := func() map[string]map[string]int {
			bare, err := framework.Do(w.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/stats", admin), nil, "")
			Expect(err).NotTo(HaveOccurred())
			return map[string]map[string]int{
				"web-1": holdings(web.Stats()), "backend-1": holdings(backend.Stats()), "plain-1": holdings(framework.ParseStats(bare.Body)),
			}
		}
		before := held()
		updates := func() int { return web.Stat("cluster_manager.cds.update_success") }
		seen := updates()
		loads := []*framework.Load{
			framework.StartTraffic(web.to("backend"), http.Header{}, 1), framework.StartTraffic(web.to("plain"), http.Header{}, 1),
			framework.StartConnections(web.to("backend"), http.Header{}, 1, 5),
		}
		online := func() (n int) {
			for _, name := range []string{"web-1", "backend-1", "plain-1"} {
				if w.overview(name).online() {
					n++
				}
			}
			return n
		}

		By("expiring")
		f.endsAt(time.Now().Add(-time.Minute))
		f.breakOff()
		cp.Kill()
		cp.Start()
		w.route(map[string]any{"destination": tags{service: "backend"}, "loadBalancer": map[string]any{"random": map[string]any{}}})
		refusals := f.refused.Load()
		Eventually(f.refused.Load, patience, 10*time.Millisecond).Should(BeNumerically(">", refusals+8), "proxies try again, and refuse the certificate")
		Expect(online()).To(BeZero())
		Expect(held()).To(Equal(before))
		Expect(updates()).To(Equal(seen))
		for _, l := range loads {
			l.Served(100)
		}

		By("being renewed")
		f.endsAt(time.Now().Add(time.Hour))
		Eventually(online, 2*patience, 20*time.Millisecond).Should(Equal(3))
		w.Converged()
		Expect(updates()).To(BeNumerically(">", seen), "what was written meanwhile arrives")
		Expect(held()).To(Equal(before))

		By("proxies that are there before the control plane knows anything")
		for range 3 {
			cp.Kill()
			cp.Start()
			Eventually(online, 2*patience, 20*time.Millisecond).Should(Equal(3))
			w.Converged()
			Expect(held()).To(Equal(before))
		}
		for _, l := range loads {
			l.Served(100)
			none(l)
		}
	})
})
