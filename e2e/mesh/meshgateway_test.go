package mesh_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshgate/meshgate/e2e/framework"
)

// certificatePEM is a self-signed certificate of a host with its key, as a secret holds it.
func certificatePEM(host string, serial int64) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	leaf := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	return slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// entry is how a client comes to a gateway: at a port, with a host and, for TLS, a server name.
type entry struct {
	// address is 127.0.0.1 if it is empty.
	address string

	port   int
	host   string
	secure bool
	header http.Header
}

func (e entry) at() string {
	if e.address != "" {
		return e.address
	}
	return "127.0.0.1"
}

// client follows no redirects. It shows which certificate it was shown last.
func (e entry) client(serial *int64) *http.Client {
	t := &http.Transport{TLSClientConfig: &tls.Config{ServerName: e.host, InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
		if serial != nil {
			*serial = s.PeerCertificates[0].SerialNumber.Int64()
		}
		return nil
	}}}
	return &http.Client{Transport: t, Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (e entry) ask(c *http.Client, method, path string) (*framework.Response, error) {
	scheme := "http"
	if e.secure {
		scheme = "https"
	}
	r, err := http.NewRequest(method, fmt.Sprintf("%s://%s:%d%s", scheme, e.at(), e.port, path), http.NoBody) //nolint:noctx // a test
	if err != nil {
		return nil, err
	}
	r.Host = e.host
	for k, v := range e.header {
		r.Header[k] = v
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return &framework.Response{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}, err
}

// get asks on a connection of its own.
func (e entry) get(path string) *framework.Response {
	GinkgoHelper()
	c := e.client(nil)
	defer c.CloseIdleConnections()
	r, err := e.ask(c, http.MethodGet, path)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// status is that of an answer, 0 without one.
func (e entry) status(path string) int {
	c := e.client(nil)
	defer c.CloseIdleConnections()
	if r, err := e.ask(c, http.MethodGet, path); err == nil {
		return r.Status
	}
	return 0
}

// misdirected asks for a host on a connection for a server name, as clients do that use one connection
// for several hosts. It returns the version of HTTP and the status.
func misdirected(port int, name, host string, version int) []int {
	GinkgoHelper()
	c := entry{host: name}.client(nil)
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = version == 2
	defer c.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/", port), http.NoBody) //nolint:noctx // a test
	Expect(err).NotTo(HaveOccurred())
	r.Host = host
	resp, err := c.Do(r)
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Body.Close()).To(Succeed())
	return []int{resp.ProtoMajor, resp.StatusCode}
}

// pathPrefix is a match of a MeshGatewayRoute.
func pathPrefix(p string) map[string]any {
	return map[string]any{"path": map[string]any{"match": "PREFIX", "value": p}}
}

// backendOf is a backend of a MeshGatewayRoute: a service, perhaps with more tags.
func backendOf(name string, more ...string) map[string]any {
	d := tags{service: name}
	for i := 0; i < len(more); i += 2 {
		d[more[i]] = more[i+1]
	}
	return share(1, d)
}

// gatewayRule is a rule of a MeshGatewayRoute with one match.
func gatewayRule(match any, filters []any, backends ...any) map[string]any {
	r := map[string]any{"matches": []any{match}}
	if filters != nil {
		r["filters"] = filters
	}
	if len(backends) > 0 {
		r["backends"] = backends
	}
	return r
}

var _ = Describe("gateways of a mesh", Ordered, ContinueOnFailure, func() {
	var (
		w                            *world
		plain, secure, tcp, passing  int
		gateway                      *framework.Sidecar
		backend, ledger, bank, other *member
		http1, foo, bar              entry
	)
	selectors := []any{map[string]any{"match": tags{service: "edge"}}}
	prefix, to, rule := pathPrefix, backendOf, gatewayRule
	route := func(name string, hostnames []any, rules ...any) {
		w.Put("meshgatewayroutes", framework.Document{
			"type": "MeshGatewayRoute", "mesh": shop, "name": name, "selectors": selectors,
			"conf": map[string]any{"http": map[string]any{"hostnames": hostnames, "rules": rules}},
		})
	}
	secret := func(name string, data []byte) {
		w.Put("secrets", framework.Document{"type": "Secret", "mesh": shop, "name": name, "data": data})
	}

	BeforeAll(func() {
		w = newWorld("STRICT")
		ports := framework.FreePorts(4)
		plain, secure, tcp, passing = ports[0], ports[1], ports[2], ports[3]
		http1 = entry{port: plain, host: "any.example"}
		foo, bar = entry{port: secure, host: "foo.example", secure: true}, entry{port: secure, host: "bar.example", secure: true}
		backend = w.start("backend-1", tags{service: "backend", "version": "v1"})
		other = w.start("other-1", tags{service: "other"}, "ledger")
		ledger = w.start("ledger-1", tags{service: "ledger"})
		echo := framework.StartEcho("bank")
		bank = w.join(w.around("bank-1", nil, echo, tags{service: "bank", protocol: "tcp"}))
		secret("foo", certificatePEM("foo.example", 1))
		secret("bar", certificatePEM("bar.example", 2))
		terminate := func(name string) any {
			return map[string]any{"mode": "TERMINATE", "certificates": []any{map[string]any{"secret": name}}}
		}
		w.Put("meshgateways", framework.Document{"type": "MeshGateway", "mesh": shop, "name": "edge", "selectors": selectors, "conf": map[string]any{"listeners": []any{
			map[string]any{"port": plain, "protocol": "HTTP"},
			map[string]any{"port": secure, "protocol": "HTTPS", "hostname": "foo.example", "tls": terminate("foo")},
			map[string]any{"port": secure, "protocol": "HTTPS", "hostname": "*.example", "tls": terminate("bar")},
			map[string]any{"port": secure, "protocol": "HTTPS", "hostname": "none.example", "tls": terminate("none")},
			map[string]any{"port": tcp, "protocol": "TCP"},
			map[string]any{"port": passing, "protocol": "TLS", "hostname": "pass.example", "tls": map[string]any{"mode": "PASSTHROUGH"}},
		}}})
		route("paths", nil,
			rule(prefix("/"), nil, to("backend")),
			rule(prefix("/ledger"), nil, to("ledger")),
			rule(map[string]any{"path": map[string]any{"value": "/ledger/exact"}}, nil, to("backend")),
			rule(map[string]any{"path": map[string]any{"match": "PREFIX", "value": "/"}, "headers": []any{map[string]any{"name": "x-to", "value": "ledger"}}}, nil, to("ledger")),
			rule(prefix("/cut"), []any{map[string]any{"rewrite": map[string]any{"replacePrefixMatch": "/"}}}, to("backend")),
			rule(prefix("/moved"), []any{map[string]any{"redirect": map[string]any{"statusCode": 302, "hostname": "other.example", "path": map[string]any{"replacePrefixMatch": "/new"}}}}),
		)
		route("ledgers", []any{"ledger.example"}, rule(prefix("/"), []any{map[string]any{"requestHeader": map[string]any{
			"set": []any{map[string]any{"name": "Host", "value": "inside.example"}, map[string]any{"name": "x-by", "value": "gateway"}},
		}}}, to("ledger")))
		w.Put("meshgatewayroutes", framework.Document{
			"type": "MeshGatewayRoute", "mesh": shop, "name": "connections", "selectors": selectors,
			"conf": map[string]any{"tcp": map[string]any{"rules": []any{map[string]any{"backends": []any{to("bank")}}}}},
		})
		w.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": shop, "name": "edge-1", "networking": map[string]any{
			"address": "127.0.0.1", "gateway": map[string]any{"type": "BUILTIN", "tags": tags{service: "edge"}},
		}})
		gateway = framework.NewSidecar(w.cp, shop, "edge-1", "", "--proxy-type", "gateway").Start()
		w.ready(backend, ledger, bank, other)
		gateway.WaitReady()
		w.Converged()
		Eventually(func() int { return http1.status("/") }, patience, 20*time.Millisecond).Should(Equal(200))
	})

	It("lead by path and header, the longest path first, over mutual TLS", func() {
		Expect(http1.get("/x").Received().Name).To(Equal("backend-1"))
		Expect(http1.get("/ledger").Received().Name).To(Equal("ledger-1"))
		Expect(http1.get("/ledger/x").Received().Name).To(Equal("ledger-1"))
		Expect(http1.get("/ledgerx").Received().Name).To(Equal("backend-1"), "a prefix consists of segments")
		Expect(http1.get("/ledger/exact").Received().Name).To(Equal("backend-1"))
		with := http1
		with.header = http.Header{"X-To": {"ledger"}}
		Expect(with.get("/x").Received().Name).To(Equal("ledger-1"))
		Expect(strings.Join(http1.get("/x").Received().Headers["X-Forwarded-Client-Cert"], " ")).To(ContainSubstring("spiffe://shop/edge"), "the backend sees the gateway's identity")
	})

	It("lead by host, and edit headers", func() {
		at := entry{port: plain, host: "ledger.example"}
		got := at.get("/x").Received()
		Expect(got.Name).To(Equal("ledger-1"))
		Expect(got.Host).To(Equal("inside.example"))
		Expect(got.Headers["X-By"]).To(Equal([]string{"gateway"}))
	})

	It("rewrite and redirect", func() {
		Expect(http1.get("/cut/a/b?q=1").Received().Path).To(Equal("/a/b?q=1"))
		Expect(http1.get("/cut").Received().Path).To(Equal("/"))
		r := http1.get("/moved/a?q=1")
		Expect(r.Status).To(Equal(302))
		Expect(r.Header.Get("Location")).To(Equal(fmt.Sprintf("http://other.example:%d/new/a?q=1", plain)))
	})

	It("refuse what clients at the edge must not send", func() {
		raised := http1.get("/ledger/..//x/./y").Received()
		Expect([]string{raised.Name, raised.Path}).To(Equal([]string{"backend-1", "/x/y"}), "paths are normalised before a route is chosen")
		r := http1.get("/ledger%2Fx")
		Expect(r.Status).To(Equal(307), "escaped slashes are unescaped, by the client")
		Expect(r.Header.Get("Location")).To(HaveSuffix("/ledger/x"))
		Expect(http1.get("/x").Header).NotTo(HaveKey("X-Envoy-Upstream-Service-Time"), "services tell nobody how long they take")
		with := http1
		with.header = http.Header{"x_under": {"1"}}
		Expect(with.status("/")).To(Equal(400))
		c := http1.client(nil)
		defer c.CloseIdleConnections()
		trace, err := http1.ask(c, http.MethodTrace, "/")
		Expect(err).NotTo(HaveOccurred())
		Expect(trace.Status).To(Equal(405))
		said := http.Header{
			"X-Forwarded-Host": {"a.example"}, "X-Real-Ip": {"1.2.3.4"}, "Forwarded": {"for=1.2.3.4"}, "X-Envoy-Retry-On": {"5xx"},
			"X-Consumer-Username": {"admin"}, "X-Credential-Identifier": {"a"}, "X-Authenticated-Scope": {"all"}, "X-Anonymous-Consumer": {"true"},
		}
		with.header = said.Clone()
		with.header.Set("X-Forwarded-For", "1.2.3.4")
		with.header.Set("X-Forwarded-Client-Cert", "URI=spiffe://shop/ledger")
		got := with.get("/").Received()
		for name := range said {
			Expect(got.Headers).NotTo(HaveKey(name))
		}
		Expect(got.Headers["X-Forwarded-For"]).To(ConsistOf(And(Not(BeEmpty()), Not(ContainSubstring("1.2.3.4")))), "the address of the connection")
		Expect(got.Headers["X-Forwarded-Client-Cert"]).To(ConsistOf(And(ContainSubstring("spiffe://shop/edge"), Not(ContainSubstring("ledger")))))
		with.header = http.Header{"X-Other": {"passes"}}
		Expect(with.get("/").Received().Headers).To(HaveKeyWithValue("X-Other", []string{"passes"}), "other headers come through")
	})

	It("read a request in one way", func() {
		got, want := map[string]string{}, map[string]string{}
		for _, row := range strange {
			got[row.what], want[row.what] = answered(plain, row.request), row.want
		}
		Expect(cmp.Diff(want, got)).To(BeEmpty())
	})

	It("bound connections of HTTP/2 and TLS", func() {
		settings, status := overHTTP2(secure, "bar.example")
		Expect(status).To(Equal("200"))
		Expect(settings).To(And(HaveKeyWithValue(http2.SettingMaxConcurrentStreams, uint32(100)), HaveKeyWithValue(http2.SettingInitialWindowSize, uint32(64<<10))))
		for what, field := range map[string]hpack.HeaderField{
			"framing of HTTP/1": {Name: "transfer-encoding", Value: "chunked"}, "a connection header": {Name: "connection", Value: "close"}, "capitals": {Name: "X-A", Value: "a"},
			"a line": {Name: "x-a", Value: "a\r\nb: c"}, "a second path": {Name: ":path", Value: "/ledger"}, "an underscore": {Name: "x_consumer_id", Value: "a"},
			"another length": {Name: "content-length", Value: "5"}, "another protocol": {Name: ":protocol", Value: "other"},
		} {
			_, status := overHTTP2(secure, "bar.example", field)
			Expect(status).To(BeElementOf(unanswered, "400", "403"), what)
		}
		for version, takes := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
			conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", secure), &tls.Config{ServerName: "bar.example", InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version}) //nolint:noctx // a test
			Expect(err == nil).To(Equal(takes), tls.VersionName(version))
			if conn != nil {
				Expect(conn.Close()).To(Succeed())
			}
		}
	})

	It("present certificates by server name, and exchange them without closing connections", func() {
		var shown int64
		c := foo.client(&shown)
		defer c.CloseIdleConnections()
		handshakes := 0
		settings := c.Transport.(*http.Transport).TLSClientConfig
		note := settings.VerifyConnection
		settings.VerifyConnection = func(s tls.ConnectionState) error { handshakes++; return note(s) }
		keep, err := foo.ask(c, http.MethodGet, "/")
		Expect(err).NotTo(HaveOccurred())
		Expect(keep.Status).To(Equal(200))
		Expect(shown).To(BeEquivalentTo(1))
		Expect(keep.Header.Get("Strict-Transport-Security")).NotTo(BeEmpty())
		var other int64
		_, err = bar.ask(bar.client(&other), http.MethodGet, "/")
		Expect(err).NotTo(HaveOccurred())
		Expect(other).To(BeEquivalentTo(2))
		Expect(bar.get("/").Status).To(Equal(200))
		for _, asked := range [][2]string{{"bar.example", "foo.example"}, {"bar.example", "bar.elsewhere"}, {"foo.example", "bar.example"}, {"foo.example", "foo.elsewhere"}} {
			for _, version := range []int{1, 2} {
				Expect(misdirected(secure, asked[0], asked[1], version)).To(Equal([]int{version, 421}), "by the name of %s, the host %s", asked[0], asked[1])
			}
			Expect(misdirected(secure, asked[0], asked[0], 2)).To(Equal([]int{2, 200}))
		}

		secret("foo", certificatePEM("foo.example", 3))
		w.Converged()
		asked := 0
		Eventually(func() int64 {
			r, err := foo.ask(c, http.MethodGet, "/")
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200))
			asked++
			var now int64
			fresh := foo.client(&now)
			defer fresh.CloseIdleConnections()
			r, err = foo.ask(fresh, http.MethodGet, "/")
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200))
			return now
		}, patience, 10*time.Millisecond).Should(BeEquivalentTo(3))
		_, err = foo.ask(c, http.MethodGet, "/")
		Expect(err).NotTo(HaveOccurred())
		Expect(handshakes).To(Equal(1), "the first connection is still the same after %d requests", asked)
	})

	It("close connections for a host without a certificate, and for no other", func() {
		none := entry{port: secure, host: "none.example", secure: true}
		Expect(none.status("/")).To(BeZero(), "its secret was never there")
		Expect(bar.status("/")).To(Equal(200), "the wildcard above it")
		w.Delete(shop, "secrets", "foo")
		w.Converged()
		Eventually(func() int { return foo.status("/") }, patience, 10*time.Millisecond).Should(BeZero())
		Expect(bar.status("/")).To(Equal(200))
		Expect(w.Mesh(http.MethodGet, "/meshes/shop/dataplanes/edge-1/policies", nil).Body).To(And(
			ContainSubstring(`connections for foo.example that need it are closed`), ContainSubstring(`connections for none.example that need it are closed`)))

		// A proxy that comes now is not kept waiting for what it cannot get.
		w.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": shop, "name": "edge-2", "networking": map[string]any{
			"address": "127.0.0.60", "gateway": map[string]any{"type": "BUILTIN", "tags": tags{service: "edge"}},
		}})
		DeferCleanup(func() { w.Delete(shop, "dataplanes", "edge-2") })
		late := framework.NewSidecar(w.cp, shop, "edge-2", "", "--proxy-type", "gateway").Start()
		late.WaitReady()
		there := bar
		there.address = "127.0.0.60"
		Eventually(func() int { return there.status("/") }, patience, 10*time.Millisecond).Should(Equal(200))
		for name, n := range late.Stats() {
			if strings.HasSuffix(name, "init_fetch_timeout") {
				Expect(n).To(BeZero(), "%s", name)
			}
		}
		secret("foo", certificatePEM("foo.example", 4))
		Eventually(func() int { return foo.status("/") }, patience, 10*time.Millisecond).Should(Equal(200))
	})

	It("lead connections of TCP, and of TLS that they do not end", func() {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", tcp)) //nolint:noctx // a test
		Expect(err).NotTo(HaveOccurred())
		_, err = fmt.Fprintln(conn, "hello")
		Expect(err).NotTo(HaveOccurred())
		line, err := bufio.NewReader(conn).ReadString('\n')
		Expect(err).NotTo(HaveOccurred())
		Expect(line).To(Equal("bank hello\n"))
		Expect(conn.Close()).To(Succeed())
		// The echo does not speak TLS: it answers each line of the greeting as it came.
		conn, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", passing)) //nolint:noctx // a test
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = conn.Close() }()
		hello := &tls.Config{ServerName: "pass.example", InsecureSkipVerify: true, NextProtos: []string{"line\n"}}
		err = tls.Client(conn, hello).Handshake() //nolint:noctx // a test
		Expect(err).To(MatchError(ContainSubstring("first record does not look like a TLS handshake")), "the bytes reach the service as they are")
	})

	It("count requests where a RateLimit is for their listener", func() {
		w.Put("rate-limits", policy("RateLimit", "few", tags{service: "edge"}, tags{service: "ledger"}, map[string]any{
			"http": map[string]any{"requests": 3, "interval": "3600s", "onRateLimit": map[string]any{"status": 423}},
		}))
		w.Converged()
		Eventually(func() int { return http1.status("/ledger") }, patience, 10*time.Millisecond).Should(Equal(423))
		Expect(http1.status("/x")).To(Equal(200))
		Expect(gateway.Stat("rate_limit.http_local_rate_limit.rate_limited")).To(BeNumerically(">", 0), "the gateway itself refuses")
		Expect(gateway.Stat("rate_limit.http_local_rate_limit.ok")).To(Equal(3), "and counts what it lets pass")
		w.Delete(shop, "rate-limits", "few")
	})

	It("get the faults that services have for them, and no other callers", func() {
		w.Put("fault-injections", policy("FaultInjection", "teapot", tags{service: "edge"}, tags{service: "ledger", protocol: "http"}, map[string]any{
			"abort": map[string]any{"httpStatus": 418, "percentage": 100},
		}))
		w.Converged()
		Eventually(func() int { return http1.status("/ledger") }, patience, 10*time.Millisecond).Should(Equal(418))
		Expect(http1.status("/x")).To(Equal(200))
		w.Delete(shop, "fault-injections", "teapot")
		w.Converged()
		Eventually(func() int { return http1.status("/ledger") }, patience, 10*time.Millisecond).Should(Equal(200))
		w.Put("fault-injections", policy("FaultInjection", "teapot", tags{service: "other"}, tags{service: "ledger", protocol: "http"}, map[string]any{
			"abort": map[string]any{"httpStatus": 418, "percentage": 100},
		}))
		w.Converged()
		answers(other.to("ledger"), 418)
		Expect(http1.status("/ledger")).To(Equal(200), "the gateway is known by its certificate")
		w.Delete(shop, "fault-injections", "teapot")
	})

	It("show what is chosen for them", func() {
		r := w.Mesh(http.MethodGet, "/meshes/shop/dataplanes/edge-1/policies", nil)
		Expect(r.Status).To(Equal(200))
		Expect(r.JSON()["kind"]).To(Equal("MeshGatewayDataplane"))
		Expect(r.Body).To(ContainSubstring(`"timeout-all-shop"`))
		r = w.Mesh(http.MethodGet, "/meshes/shop/meshgatewayroutes/ledgers/dataplanes", nil)
		Expect(r.Body).To(ContainSubstring(`"edge-1"`))
	})
})
