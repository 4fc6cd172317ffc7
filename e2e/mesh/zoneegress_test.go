package mesh_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// outside starts a server outside the mesh, which answers with what it was asked.
func outsideMesh() *httptest.Server {
	ln, err := net.Listen("tcp", net.JoinHostPort(outward(), "0"))
	Expect(err).NotTo(HaveOccurred())
	s := &httptest.Server{Listener: ln, Config: &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(rw).Encode(map[string]any{"headers": r.Header})
		}),
		ReadHeaderTimeout: patience,
	}}
	DeferCleanup(s.Close)
	return s
}

// asks makes a request to an egress for a service by an identity, and returns the status, or why
// there is no answer.
func asks(port int, sni string, identity *tls.Certificate) string {
	cfg := &tls.Config{ServerName: sni, InsecureSkipVerify: true, NextProtos: []string{"mesh"}}
	if identity != nil {
		cfg.Certificates = []tls.Certificate{*identity}
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", fmt.Sprintf("127.0.0.1:%d", port), cfg)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
		return err.Error()
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	_ = r.Body.Close()
	return strconv.Itoa(r.StatusCode)
}

var _ = Describe("services outside a mesh through the egress of the zone", Ordered, core, func() {
	var (
		w           *world
		web, egress *member
		authority   *root
		clear, safe *httptest.Server
		bank        *demanding
		client      [2]string
		ca          string
		out         int
		file        string
	)
	external := func(name, proto string, at net.Addr, protection map[string]any) {
		n := map[string]any{"address": at.String()}
		if protection != nil {
			n["tls"] = protection
		}
		w.Put("external-services", framework.Document{
			"type": "ExternalService", "mesh": shop, "name": name, "tags": tags{service: name, protocol: proto}, "networking": n,
		})
	}
	permit := func(who string, to ...string) {
		for _, name := range to {
			w.Put("traffic-permissions", policy("TrafficPermission", "only-"+name, tags{service: who}, tags{service: name}, nil))
		}
		w.Converged()
	}
	through := func(yes bool) {
		w.Put("meshes", framework.Document{
			"type": "Mesh", "name": shop, "routing": map[string]any{"zoneEgress": yes}, "mtls": map[string]any{
				"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin"}},
			},
		})
		w.Converged()
	}
	begin := func(more ...string) {
		more = append(more, "--workload-address", outward()+"/32")
		egress = &member{Sidecar: framework.NewEgress(w.cp, "default", "out", file, more...).Start()}
		w.ready(egress)
	}
	// has reports whether a proxy has the certificate that the bank demands.
	has := func(m *member) bool {
		block, _ := pem.Decode([]byte(client[0]))
		for _, held := range secretsOf(m.Sidecar) {
			if slices.ContainsFunc(held, func(c *x509.Certificate) bool { return bytes.Equal(c.Raw, block.Bytes) }) {
				return true
			}
		}
		return false
	}
	// knows is the name by which the bank knows who called.
	knows := func() string {
		r, err := get(web.to("bank"))
		if err != nil || r.Status != 200 {
			return ""
		}
		var said struct{ Client string }
		_ = json.Unmarshal([]byte(r.Body), &said)
		return said.Client
	}

	BeforeAll(func() {
		clear, safe = outsideMesh(), outsideMesh()
		clear.Start()
		safe.StartTLS()
		ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: safe.Certificate().Raw}))
		bank = startDemanding()
		client[0], client[1] = framework.Certificate("one")
		bank.accept(client[0])

		w = newWorld("STRICT")
		w.Delete(shop, "traffic-permissions", allowAll)
		external("clear", "http", clear.Listener.Addr(), nil)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "example.com"))
		external("bank", "http", bank.Listener.Addr(), map[string]any{
			"enabled": true, "serverName": "example.com", "caCert": map[string]any{"inlineString": bank.ca},
			"clientCert": map[string]any{"inlineString": client[0]}, "clientKey": map[string]any{"inlineString": client[1]},
		})
		out = framework.FreePorts(1)[0]
		file = filepath.Join(GinkgoT().TempDir(), "egress.yaml")
		writeFile(file, []byte(fmt.Sprintf("type: ZoneEgress\nname: out\nnetworking: {address: 127.0.0.1, port: %d}\n", out)))
		web = w.start("web-1", tags{service: "web"}, "clear", "safe", "bank", "named")
		w.ready(web)
		authority = newRoot()
		w.rotate(authority)
		Eventually(func() bool {
			identity, roots := web.trust()
			return len(roots) == 1 && identity != nil && identity.CheckSignatureFrom(authority.cert) == nil
		}, patience).Should(BeTrue())

		By("calling them directly until the mesh wants it, and then not without an egress")
		permit("web", "clear", "safe", "bank")
		for _, name := range []string{"clear", "safe", "bank"} {
			answers(web.to(name), 200)
		}
		Expect(has(web)).To(BeTrue(), "who calls the bank has its certificate")
		through(true)
		for _, name := range []string{"clear", "safe", "bank"} {
			answers(web.to(name), 503)
		}
		Expect(fmt.Sprint(w.Get("/nodes/" + shop + ".web-1"))).To(ContainSubstring(`no egress of the zone leads to "clear" outside the mesh`))
		begin()
	})

	It("an egress calls them as they demand, and only it has what that takes", func() {
		for _, name := range []string{"clear", "safe", "bank"} {
			answers(web.to(name), 200)
		}
		Expect(knows()).To(Equal("one"))
		Expect(egress.Stat("http.shop_clear.downstream_rq_total")).To(BeNumerically(">", 0))

		held, err := web.Admin("/config_dump")
		Expect(err).NotTo(HaveOccurred())
		Expect(held).NotTo(ContainSubstring(clear.Listener.Addr().String()))
		Expect(has(web)).To(BeFalse())
		Expect(has(egress)).To(BeTrue())
		clusters, err := web.Admin("/clusters")
		Expect(err).NotTo(HaveOccurred())
		Expect(clusters).NotTo(ContainSubstring(clear.Listener.Addr().String()))
		Expect(clusters).To(ContainSubstring(fmt.Sprintf("::127.0.0.1:%d::", out)))
		identity, _ := egress.trust()
		Expect(identity.URIs).To(HaveLen(1))
		Expect(identity.URIs[0].String()).To(Equal("spiffe://" + shop + "/zoneegress"))
		Expect(w.Get("/nodes/zone%2Fegress%2Fout")).To(HaveKeyWithValue("inStep", true))
	})

	It("who calls is nobody's business outside", func() {
		r, err := framework.Do(&http.Client{Timeout: patience}, http.MethodGet, web.to("clear"), http.Header{"X-Order": {"seven"}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200))
		Expect(r.Body).To(ContainSubstring(`"X-Order":["seven"]`), "other headers do arrive")
		Expect(r.Body).NotTo(ContainSubstring("spiffe"))
		Expect(r.Body).NotTo(ContainSubstring("X-Mesh-Tags"))
		Expect(r.Body).NotTo(ContainSubstring("X-Forwarded-Client-Cert"))
	})

	It("the egress itself judges who calls", func() {
		sni := "clear{mesh=shop}"
		Expect(asks(out, sni, authority.leaf("spiffe://shop/web"))).To(Equal("200"))
		Expect(asks(out, sni, authority.leaf("spiffe://shop/jobs"))).To(Equal("403"))
		Expect(asks(out, sni, authority.leaf("spiffe://bank/web"))).NotTo(MatchRegexp(`^\d+$`))
		Expect(asks(out, sni, newRoot().leaf("spiffe://shop/web"))).NotTo(MatchRegexp(`^\d+$`))
		Expect(asks(out, sni, nil)).NotTo(MatchRegexp(`^\d+$`))
		Expect(asks(out, "clear{mesh=bank}", authority.leaf("spiffe://shop/web"))).NotTo(MatchRegexp(`^\d+$`))
		Expect(asks(out, "other{mesh=shop}", authority.leaf("spiffe://shop/web"))).NotTo(MatchRegexp(`^\d+$`))
		permit("jobs", "clear")
		answers(web.to("clear"), 403)
		Expect(asks(out, sni, authority.leaf("spiffe://shop/web"))).To(Equal("403"))
		Expect(asks(out, sni, authority.leaf("spiffe://shop/jobs"))).To(Equal("200"))
		permit("web", "clear")
		answers(web.to("clear"), 200)
	})

	It("what an egress has of the mesh opens no proxy of it", func() {
		identity, _ := egress.trust()
		Expect(identity.ExtKeyUsage).To(Equal([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}))
		permit("*", "web")
		name := "spiffe://" + shop + "/zoneegress"
		Eventually(func() error { return handshake(web.inbound(), authority.leaf(name)) }, patience).Should(Succeed())
		refused := "listener." + strings.ReplaceAll(web.inbound(), ":", "_") + ".ssl.fail_verify_error"
		before := web.Stat(refused)
		Expect(handshake(web.inbound(), authority.usable(name, identity.ExtKeyUsage...))).NotTo(Succeed())
		Eventually(func() int { return web.Stat(refused) }, patience).Should(Equal(before + 1))
		Expect(handshake(web.inbound(), authority.usable(name, x509.ExtKeyUsageClientAuth))).To(Succeed())
	})

	It("a server has to have the name and the authority that are demanded", func() {
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "other.test"))
		answers(web.to("safe"), 503)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "example.com"))
		answers(web.to("safe"), 200)
		another, _ := framework.Certificate("example.com")
		external("safe", "http", safe.Listener.Addr(), mailTLS(another, "example.com"))
		answers(web.to("safe"), 503)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "example.com"))
		answers(web.to("safe"), 200)
	})

	It("limits hold at the egress", func() {
		w.Put("rate-limits", policy("RateLimit", "few", tags{service: "web"}, tags{service: "clear"}, map[string]any{"http": map[string]any{"requests": 2, "interval": "1h"}}))
		answers(web.to("clear"), 429)
		Expect(egress.Stat("http.shop_clear.downstream_rq_4xx")).To(BeNumerically(">", 0))
		w.Delete(shop, "rate-limits", "few")
		answers(web.to("clear"), 200)
	})

	It("a new authority is taken into use without a failed request", func() {
		load := framework.StartTraffic(web.to("clear"), http.Header{}, 2)
		fresh := framework.StartConnections(web.to("safe"), http.Header{}, 2, 10)
		load.Served(100)
		for range 2 {
			authority = newRoot()
			w.rotate(authority)
			Eventually(func() bool {
				for _, m := range []*member{web, egress} {
					identity, roots := m.trust()
					if len(roots) != 1 || !roots[0].Equal(authority.cert) || identity.CheckSignatureFrom(authority.cert) != nil {
						return false
					}
				}
				return true
			}, patience).Should(BeTrue())
			load.Served(100)
			fresh.Served(100)
		}
		none(load)
		none(fresh)
	})

	// That nothing goes on however long it takes is in assembly's TestRotationWaitsForEgresses, in virtual time.
	It("a new root comes into use once an egress that was held up has heard of it", func() {
		former := authority
		authority = newRoot()
		egress.Signal(syscall.SIGSTOP)
		w.rotate(authority)
		Eventually(func() int { _, roots := web.trust(); return len(roots) }, patience).Should(Equal(2))
		identity, _ := web.trust()
		Expect(identity.CheckSignatureFrom(former.cert)).To(Succeed(), "the egress would not trust another one")
		egress.Signal(syscall.SIGCONT)
		Eventually(func() bool {
			identity, roots := web.trust()
			return len(roots) == 1 && roots[0].Equal(authority.cert) && identity.CheckSignatureFrom(authority.cert) == nil
		}, patience).Should(BeTrue())
		answers(web.to("clear"), 200)
	})

	It("without the egress nothing is called past it, and with it all is well again", func() {
		egress.Signal(term)
		egress.Exit(patience)
		w.Converged()
		answers(web.to("clear"), 503)
		answers(web.to("safe"), 503)
		begin()
		answers(web.to("clear"), 200)
		answers(web.to("safe"), 200)
		through(false)
		for _, name := range []string{"clear", "safe", "bank"} {
			answers(web.to(name), 200)
		}
		Eventually(func() (string, error) { return egress.Admin("/config_dump") }, patience).ShouldNot(ContainSubstring("mesh_ca"))
	})

	// Whether anything answers is the resolver's business. What Envoy resolves is the agent's.
	It("an egress leads to a name only if it was started with it", func() {
		through(true)
		begin()
		w.Put("external-services", framework.Document{
			"type": "ExternalService", "mesh": shop, "name": "named", "tags": tags{service: "named", protocol: "http"},
			"networking": map[string]any{"address": "named.example.test:80"},
		})
		permit("web", "named")
		resolved := func() int { return egress.Stat("cluster.shop_named.update_attempt") }
		refused := And(ContainSubstring("endpoints_left_out"), ContainSubstring("an egress needs --external-name for it"))
		again := func(name string) {
			egress.Signal(term)
			egress.Exit(patience)
			begin("--external-name", name)
			answers(web.to("clear"), 200)
		}
		leads := func() (string, error) { return egress.Admin("/config_dump") }
		Eventually(egress.Output, patience).Should(refused)
		Expect(leads()).NotTo(ContainSubstring(`"address": "named.example.test"`))
		again("example.com")
		Eventually(egress.Output, patience).Should(refused)
		Expect(leads()).NotTo(ContainSubstring(`"address": "named.example.test"`))
		again("example.test")
		Eventually(leads, patience).Should(ContainSubstring(`"address": "named.example.test"`))
		Eventually(resolved, patience).Should(BeNumerically(">", 0))
		Expect(egress.Output()).NotTo(ContainSubstring("endpoints_left_out"))
	})
})
