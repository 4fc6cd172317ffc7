package mesh_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// moody is a workload that fails when it is told to, and counts who asks how it is.
type moody struct {
	*httptest.Server
	sick   atomic.Bool
	checks atomic.Int64
}

func startMoody() *moody {
	m := &moody{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			m.checks.Add(1)
		}
		if m.sick.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	DeferCleanup(func() { framework.EndServer(m.Server) })
	return m
}

func (m *moody) port() int {
	port, err := strconv.Atoi(m.URL[len("http://127.0.0.1:"):])
	Expect(err).NotTo(HaveOccurred())
	return port
}

var _ = Describe("health checks", Ordered, core, func() {
	var (
		w    *world
		web  *member
		work *moody
	)
	const healthy = "cluster.backend.membership_healthy"

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop) // nothing else makes good what fails
		work = startMoody()
		first := w.start("backend-1", tags{service: "backend"})
		second := w.join(w.around("backend-2", nil, work.port(), tags{service: "backend", protocol: "http"}))
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(first, second, web)
		answers(web.to("backend"), 200)
		w.Put("health-checks", policy("HealthCheck", "backend", tags{service: "web"}, tags{service: "backend"}, map[string]any{
			"interval": "100ms", "timeout": "2s", "unhealthyThreshold": 1, "healthyThreshold": 1, "healthyPanicThreshold": 0,
			"http": map[string]any{"path": "/health"},
		}))
		w.Converged()
	})

	It("an endpoint that fails its checks gets no requests, and gets them again when it passes", func() {
		Eventually(work.checks.Load, patience, 10*time.Millisecond).Should(BeNumerically(">", 2), "checks through both proxies")
		Eventually(func() int { return web.Stat(healthy) }, patience, 10*time.Millisecond).Should(Equal(2))
		work.sick.Store(true)
		since := time.Now()
		measured("kept away from after", since, func() bool { return web.Stat(healthy) == 1 })
		for range 50 {
			Expect(called(web.to("backend"))).To(Equal(200))
		}
		work.sick.Store(false)
		measured("called again after", time.Now(), func() bool { return web.Stat(healthy) == 2 })
	})

	It("says for whom it was chosen", func() {
		r, err := get(w.MeshURL("/meshes/" + shop + "/health-checks/backend/dataplanes"))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200))
		Expect(r.Body).To(And(ContainSubstring(`"name": "web-1"`), ContainSubstring(`"type": "service"`), ContainSubstring(`"total": 1`)))
	})
})

// replying is a TCP server that answers every line with a text that may change, and keeps what it
// was told.
type replying struct {
	port  int
	reply atomic.Value
	lines atomic.Value
}

func startReplying(reply string) *replying {
	GinkgoHelper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	r := &replying{port: ln.Addr().(*net.TCPAddr).Port}
	r.reply.Store(reply)
	r.lines.Store("")
	var open sync.Map
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(conn, nil)
			go func() {
				for in := bufio.NewScanner(conn); in.Scan(); {
					r.lines.Store(in.Text())
					_, _ = fmt.Fprintln(conn, r.reply.Load())
				}
				_ = conn.Close()
			}()
		}
	}()
	DeferCleanup(func() {
		_ = ln.Close()
		open.Range(func(conn, _ any) bool { _ = conn.(net.Conn).Close(); return true })
	})
	return r
}

var _ = Describe("health checks of other protocols", Ordered, core, func() {
	var (
		w      *world
		web    *member
		second *member
		ledger *replying
		sick   atomic.Bool
		modern int
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop)
		ledger = startReplying("well")
		modern = serveModern(func(rw http.ResponseWriter, _ *http.Request) {
			if sick.Load() {
				rw.WriteHeader(http.StatusInternalServerError)
			}
		})
		web = w.start("web-1", tags{service: "web"}, "ledger", "modern")
		second = w.join(w.around("modern-1", nil, modern, tags{service: "modern", protocol: "http2"}))
		w.ready(web, second,
			w.join(w.around("ledger-1", nil, startReplying("well").port, tags{service: "ledger", protocol: "tcp"})),
			w.join(w.around("ledger-2", nil, ledger.port, tags{service: "ledger", protocol: "tcp"})))
		answers(web.to("modern"), 200)
	})

	checks := func(to string, how map[string]any) {
		conf := map[string]any{"interval": "50ms", "timeout": "1s", "unhealthyThreshold": 1, "healthyThreshold": 1, "healthyPanicThreshold": 0}
		maps.Copy(conf, how)
		w.Put("health-checks", policy("HealthCheck", to, tags{service: "web"}, tags{service: to}, conf))
		w.Converged()
	}
	healthy := func(of string, n int) {
		GinkgoHelper()
		Eventually(func() int { return web.Stat("cluster." + of + ".membership_healthy") }, patience, "10ms").Should(Equal(n))
	}

	It("TCP: an endpoint that answers something else gets no connections", func() {
		checks("ledger", map[string]any{"tcp": map[string]any{
			"send": base64.StdEncoding.EncodeToString([]byte("how are you?\n")),
			// What comes between the parts does not matter.
			"receive": []any{base64.StdEncoding.EncodeToString([]byte("we")), base64.StdEncoding.EncodeToString([]byte("ll\n"))},
		}})
		healthy("ledger", 2)
		Eventually(ledger.lines.Load, patience, "10ms").Should(Equal("how are you?"), "checks reach the workload")
		ledger.reply.Store("ill")
		healthy("ledger", 1)
		for range 20 {
			conn, lines := dialEcho(web.port2("ledger"))
			Expect(conn.say(lines, "hello")).To(Equal("well"))
			Expect(conn.Close()).To(Succeed())
		}
		ledger.reply.Store("well")
		healthy("ledger", 2)
	})

	// The proxy of the service counts connections by what is spoken on them, and its workload is
	// always spoken to by HTTP/2.
	spoken := func(version string) int {
		return second.Stat(fmt.Sprintf("http.localhost_%d.downstream_rq_http%s_total", modern, version))
	}
	for _, c := range []struct {
		name            string
		http            map[string]any
		speaks, doesNot string
	}{
		{"HTTP/2, if the service speaks it", map[string]any{"path": "/"}, "2", "1"},
		{"HTTP/1.1, with useHttp1", map[string]any{"path": "/", "useHttp1": true}, "1", "2"},
	} {
		It(c.name, func() {
			sick.Store(false)
			checks("modern", map[string]any{"http": c.http})
			healthy("modern", 1)
			before := spoken(c.doesNot)
			from := spoken(c.speaks)
			Eventually(func() int { return spoken(c.speaks) }, patience, "10ms").Should(BeNumerically(">", from+3))
			Expect(spoken(c.doesNot)).To(Equal(before))
			sick.Store(true)
			healthy("modern", 0)
			sick.Store(false)
			healthy("modern", 1)
			Expect(called(web.to("modern"))).To(Equal(200))
		})
	}
})

// serveModern starts a server that speaks HTTP/2 in clear and nothing else, and returns its port.
func serveModern(h http.HandlerFunc) int {
	GinkgoHelper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	only := &http.Protocols{}
	only.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, ReadHeaderTimeout: patience, Protocols: only}
	go func() { _ = s.Serve(ln) }()
	DeferCleanup(s.Close)
	return ln.Addr().(*net.TCPAddr).Port
}
