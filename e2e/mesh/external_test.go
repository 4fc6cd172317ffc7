package mesh_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// mailTLS is the protection of a server of httptest: it vouches for itself as example.com.
func mailTLS(ca, name string) map[string]any {
	return map[string]any{"enabled": true, "serverName": name, "caCert": map[string]any{"inlineString": ca}}
}

var _ = Describe("services outside the mesh", Ordered, core, func() {
	var (
		w           *world
		web         *member
		clear, safe *httptest.Server
		files       net.Listener
		ca          string
	)

	external := func(name, proto string, at net.Addr, tls map[string]any) {
		n := map[string]any{"address": at.String()}
		if tls != nil {
			n["tls"] = tls
		}
		w.Put("external-services", framework.Document{
			"type": "ExternalService", "mesh": shop, "name": name,
			"tags": tags{service: name, protocol: proto}, "networking": n,
		})
	}
	permit := func(to string) {
		w.Put("traffic-permissions", policy("TrafficPermission", "only-"+to, tags{service: "web"}, tags{service: to}, nil))
	}
	forbid := func(to string) { w.Delete(shop, "traffic-permissions", "only-"+to) }

	BeforeAll(func() {
		host := outward()
		listen := func() net.Listener {
			ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			Expect(err).NotTo(HaveOccurred())
			return ln
		}
		serve := func() *httptest.Server {
			s := &httptest.Server{Listener: listen(), Config: &http.Server{
				Handler:           http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("{}")) }),
				ReadHeaderTimeout: patience,
			}}
			DeferCleanup(s.Close)
			return s
		}
		clear, safe = serve(), serve()
		clear.Start()
		safe.StartTLS()
		ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: safe.Certificate().Raw}))
		files = echoAt(listen())

		w = newWorld("")
		w.Delete(shop, "traffic-permissions", allowAll)
		external("clear", "http", clear.Listener.Addr(), nil)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "example.com"))
		external("files", "tcp", files.Addr(), nil)
		web = w.start("web-1", tags{service: "web"}, "clear", "safe", "files")
		w.ready(web)
	})

	It("HTTP is answered with 403 until there is a permission, and again when it is gone", func() {
		answers(web.to("clear"), 403)
		permit("clear")
		answers(web.to("clear"), 200)
		open := keepAlive(web.port2("clear"))
		Expect(open.get()).To(Equal(200))
		forbid("clear")
		w.Converged()
		follow(open.get, 403)
		Expect(open.reconnected()).To(BeFalse(), "the answers came on the connection of before")
		stays(func() int { return called(web.to("clear")) }, 403)
	})

	It("a service that goes and comes is not called and called", func() {
		permit("clear")
		answers(web.to("clear"), 200)
		w.Delete(shop, "external-services", "clear")
		// Nobody says any more that it speaks HTTP, so connections are closed.
		answers(web.to("clear"), 0)
		external("clear", "http", clear.Listener.Addr(), nil)
		answers(web.to("clear"), 200)
	})

	It("a server has to have the name and the authority that are demanded", func() {
		answers(web.to("safe"), 403)
		permit("safe")
		answers(web.to("safe"), 200)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "other.test"))
		answers(web.to("safe"), 503)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "example.com"))
		answers(web.to("safe"), 200)
		another, _ := framework.Certificate("example.com")
		external("safe", "http", safe.Listener.Addr(), mailTLS(another, "example.com"))
		answers(web.to("safe"), 503)
	})

	It("TCP is closed without a permission, and connections that are open end after a short drain", func() {
		says := func() string {
			conn, lines := dialEcho(web.port2("files"))
			defer func() { _ = conn.Close() }()
			return conn.say(lines, "new")
		}
		Expect(says()).To(BeEmpty())
		permit("files")
		Eventually(says, patience, 20*time.Millisecond).Should(Equal("files new"))
		conn, lines := dialEcho(web.port2("files"))
		Expect(conn.say(lines, "one")).To(Equal("files one"))
		since := time.Now()
		forbid("files")
		measured("new TCP connections to a service outside refused after", since, func() bool { return says() == "" })
		measured("open TCP connection to a service outside ended after", since, func() bool { return conn.say(lines, "still") == "" })
	})
})

// demanding is a server outside the mesh that demands a certificate of its clients.
type demanding struct {
	*httptest.Server
	ca string
	// accepts holds the certificates of the clients that are let in.
	accepts atomic.Pointer[x509.CertPool]
	// served counts the requests.
	served atomic.Int64
}

// accept replaces the clients that are let in.
func (d *demanding) accept(certificates ...string) {
	pool := x509.NewCertPool()
	for _, c := range certificates {
		Expect(pool.AppendCertsFromPEM([]byte(c))).To(BeTrue())
	}
	d.accepts.Store(pool)
}

// startDemanding starts a server that vouches for itself as example.com, and answers with the name
// of its client.
func startDemanding() *demanding {
	certificate, key := framework.Certificate("example.com")
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	Expect(err).NotTo(HaveOccurred())
	d := &demanding{ca: certificate}
	d.accept()
	ln, err := net.Listen("tcp", net.JoinHostPort(outward(), "0"))
	Expect(err).NotTo(HaveOccurred())
	d.Server = &httptest.Server{Listener: ln, Config: &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			d.served.Add(1)
			_, _ = fmt.Fprintf(rw, "{\"client\":%q}", r.TLS.PeerCertificates[0].Subject.CommonName)
		}),
		ReadHeaderTimeout: patience, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}}
	d.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: d.accepts.Load()}, nil
	}}
	d.StartTLS()
	DeferCleanup(d.Close)
	return d
}

var _ = Describe("services outside the mesh that demand a certificate", Ordered, core, func() {
	var (
		w               *world
		web, jobs       *member
		bank            *demanding
		one, two, other [2]string // certificate and key
		system, foreign string
	)
	secret := func(name, data string) {
		GinkgoHelper()
		r := w.Mesh(http.MethodPut, "/meshes/"+shop+"/secrets/"+name, map[string]any{
			"type": "Secret", "mesh": shop, "name": name, "data": base64.StdEncoding.EncodeToString([]byte(data)),
		})
		Expect(r.Status).To(BeNumerically("<", 300), r.Body)
	}
	external := func(name string, at net.Addr, protection map[string]any) {
		GinkgoHelper()
		n := map[string]any{"address": at.String()}
		if protection != nil {
			n["tls"] = protection
		}
		w.Put("external-services", framework.Document{
			"type": "ExternalService", "mesh": shop, "name": name, "tags": tags{service: name, protocol: "http"}, "networking": n,
		})
	}
	inline := func(text string) map[string]any { return map[string]any{"inlineString": text} }
	from := func(name string) map[string]any { return map[string]any{"secret": name} }
	presenting := func(ca, cert, key map[string]any) map[string]any {
		t := map[string]any{"enabled": true, "serverName": "example.com", "clientCert": cert, "clientKey": key}
		if ca != nil {
			t["caCert"] = ca
		}
		return t
	}
	// client is the name by which the server knows who called, or the status of another answer.
	client := func(m *member) func() string {
		return func() string {
			r, err := get(m.to("bank"))
			switch {
			case err != nil:
				return err.Error()
			case r.Status != 200:
				return fmt.Sprint(r.Status)
			}
			var said struct{ Client string }
			_ = json.Unmarshal([]byte(r.Body), &said)
			return said.Client
		}
	}
	becomes := func(m *member, want string) {
		GinkgoHelper()
		Eventually(client(m), patience, 10*time.Millisecond).Should(Equal(want))
	}

	BeforeAll(func() {
		for name, pair := range map[string]*[2]string{"one": &one, "two": &two, "other": &other} {
			pair[0], pair[1] = framework.Certificate(name)
		}
		bank = startDemanding()
		bank.accept(one[0], two[0])
		plain := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("{}")) }))
		_ = plain.Listener.Close()
		ln, err := net.Listen("tcp", net.JoinHostPort(outward(), "0"))
		Expect(err).NotTo(HaveOccurred())
		plain.Listener = ln
		plain.Start()
		DeferCleanup(plain.Close)
		system = filepath.Join(GinkgoT().TempDir(), "system.pem")
		writeFile(system, []byte(other[0]+bank.ca))
		foreign = filepath.Join(GinkgoT().TempDir(), "others.pem")
		writeFile(foreign, []byte(other[0]))

		w = newWorld("", "--log-level", "debug")
		w.Delete(shop, "traffic-permissions", allowAll)
		w.Put("traffic-permissions", policy("TrafficPermission", "web", tags{service: "web"}, tags{service: "*"}, nil))
		external("bank", bank.Listener.Addr(), presenting(inline(bank.ca), inline(one[0]), inline(one[1])))
		external("plain", ln.Addr(), nil)
		sidecar := func(name, of, file string) *member {
			m := w.describe(name, tags{service: of}, "bank", "plain")
			w.Put("dataplanes", m.doc)
			m.Sidecar = framework.NewSidecar(w.cp, shop, name, "", "--system-ca-file", file).Start()
			return m
		}
		web, jobs = sidecar("web-1", "web", system), sidecar("jobs-1", "jobs", foreign)
		w.ready(web, jobs)
	})

	It("a certificate that the server accepts is presented, and one that it does not accept is refused", func() {
		becomes(web, "one")
		becomes(jobs, "403")
		external("bank", bank.Listener.Addr(), presenting(inline(bank.ca), inline(other[0]), inline(other[1])))
		becomes(web, "503")
		external("bank", bank.Listener.Addr(), presenting(inline(bank.ca), inline(one[0]), inline(one[1])))
		becomes(web, "one")
	})

	It("another key reaches proxies while requests run, from a secret and inline, and no other connection ends", func() {
		secret("client", one[0]+one[1])
		external("bank", bank.Listener.Addr(), presenting(inline(bank.ca), from("client"), from("client")))
		becomes(web, "one")
		elsewhere := keepAlive(strings.TrimPrefix(web.to("plain"), "http://"))
		Expect(elsewhere.get()).To(Equal(200))
		load := framework.StartTraffic(web.to("bank"), http.Header{}, 2)
		load.Served(200)
		since := time.Now()
		secret("client", two[0]+two[1])
		measured("another certificate from a secret is presented after", since, func() bool { return client(web)() == "two" })
		// The certificate stays in the secret, and the key comes inline, with those of another.
		secret("cert", one[0])
		external("bank", bank.Listener.Addr(), presenting(inline(bank.ca), from("cert"), inline(one[1])))
		becomes(web, "one")
		load.Served(200)
		none(load)
		Expect(elsewhere.get()).To(Equal(200))
		Expect(elsewhere.dialled.Load()).To(Equal(int64(1)), "connections to another service")
	})

	It("certificate and key that do not belong together leave no way, and the proxy says why", func() {
		secret("cert", two[0])
		becomes(web, "503")
		Eventually(func() []string { return w.overview("web-1").Errors }, patience).Should(ContainElement(ContainSubstring("networking.tls.clientCert: certificate and key do not belong together")))
		external("bank", bank.Listener.Addr(), presenting(inline(bank.ca), from("cert"), inline(two[1])))
		becomes(web, "two")
	})

	It("authorities come from a secret, without what else is in it, and from the machine", func() {
		secret("ca", other[1]+bank.ca)
		external("bank", bank.Listener.Addr(), presenting(from("ca"), inline(one[0]), inline(one[1])))
		becomes(web, "one")
		secret("ca", other[0])
		becomes(web, "503")
		external("bank", bank.Listener.Addr(), presenting(nil, inline(one[0]), inline(one[1])))
		becomes(web, "one")
		w.Put("traffic-permissions", policy("TrafficPermission", "jobs", tags{service: "jobs"}, tags{service: "*"}, nil))
		becomes(jobs, "503")
		w.Delete(shop, "traffic-permissions", "jobs")
		becomes(jobs, "403")
	})

	It("a limit counts the requests of all routes, and what is over it does not arrive", func() {
		becomes(web, "one")
		bankOnly := tags{service: "bank"}
		rule := func(prefix string) map[string]any {
			return map[string]any{"match": map[string]any{"path": map[string]any{"prefix": prefix}}, "destination": bankOnly}
		}
		w.Put("traffic-routes", policy("TrafficRoute", "to-bank", tags{service: "*"}, bankOnly, map[string]any{
			"http": []any{rule("/a"), rule("/b")}, "destination": bankOnly,
		}))
		w.Put("rate-limits", policy("RateLimit", "bank", tags{service: "web"}, bankOnly, map[string]any{
			"http": map[string]any{"requests": 5, "interval": "1h", "onRateLimit": map[string]any{"status": 423}},
		}))
		w.Converged()
		before, statuses := bank.served.Load(), map[int]int{}
		for i := range 18 {
			statuses[called(web.to("bank")+[]string{"/a", "/b", "/c"}[i%3])]++
		}
		Expect(statuses).To(Equal(map[int]int{200: 5, 423: 13}))
		Expect(bank.served.Load()-before).To(Equal(int64(5)), "requests that arrived")
		w.Delete(shop, "rate-limits", "bank")
		w.Delete(shop, "traffic-routes", "to-bank")
		becomes(web, "one")
	})

	It("the keys are in no log, no dump and no file of those who may call or not", func() {
		var canaries []string
		for _, key := range []string{one[1], two[1], other[1]} {
			canaries = append(canaries, strings.Split(key, "\n")[1])
		}
		nowhere := func(where, text string) {
			GinkgoHelper()
			Expect(text).NotTo(BeEmpty(), where)
			for _, canary := range canaries {
				for _, form := range framework.PlainForms(canary) {
					Expect(strings.Contains(text, form)).To(BeFalse(), where)
				}
			}
		}
		nowhere("the log of the control plane", w.cp.Output())
		for _, m := range []*member{web, jobs} {
			nowhere("the log of "+m.Name, m.Output())
			dump, err := m.Admin("/config_dump?include_eds")
			Expect(err).NotTo(HaveOccurred())
			nowhere("the dump of "+m.Name, dump)
			Expect(strings.Contains(dump, "external_client:secret:bank:")).To(Equal(m == web), m.Name)
			nowhere(m.Name, w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/"+m.Name+"/xds", nil).Body)
			files := 0
			Expect(filepath.WalkDir(m.StateDir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				raw, err := os.ReadFile(path)
				if files++; err == nil && len(raw) > 0 {
					nowhere(path, string(raw))
				}
				return err
			})).To(Succeed())
			Expect(files).To(BeNumerically(">", 0))
		}
	})

	It("a proxy that starts without the control plane serves the rest, and fails closed until that is back", func() {
		becomes(web, "one")
		w.cp.Kill()
		web.Stop()
		web.Start()
		web.WaitReady()
		answers(web.to("plain"), 200)
		Expect(called(web.to("bank"))).To(Equal(503))
		w.cp.Start()
		becomes(web, "one")
	})
})

// outward returns an address of this machine that is not its loopback. Specs that need one are
// skipped where there is none.
func outward() string {
	all, err := net.InterfaceAddrs()
	Expect(err).NotTo(HaveOccurred())
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	Skip("this machine has no address but its loopback, which no ExternalService may have")
	return ""
}

// echoAt answers lines on a listener until the specs are over.
func echoAt(ln net.Listener) net.Listener {
	var work sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	over := false
	work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			if over { // it was accepted just before the end
				_ = conn.Close()
			}
			mu.Unlock()
			work.Go(func() {
				defer func() { _ = conn.Close() }()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := fmt.Fprintf(conn, "files %s\n", lines.Text()); err != nil {
						return
					}
				}
			})
		}
	})
	DeferCleanup(func() {
		_ = ln.Close()
		mu.Lock()
		over = true
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return ln
}
