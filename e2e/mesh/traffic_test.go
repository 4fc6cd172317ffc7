package mesh_test

import (
	"math"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("web and backend under mutual TLS", Ordered, core, func() {
	var (
		w             *world
		web           *member
		first, second *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		first = w.start("backend-1", tags{service: "backend", "version": "v1"})
		second = w.start("backend-2", tags{service: "backend", "version": "v2"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, first, second)
	})

	It("requests reach every instance through both proxies", func() {
		seen := map[string]int{}
		for range 40 {
			r, err := get(web.to("backend") + "/a?b=c")
			Expect(err).NotTo(HaveOccurred())
			got := r.Received()
			Expect(got.Path).To(Equal("/a?b=c"))
			seen[got.Name]++
		}
		Expect(seen).To(And(HaveKey("backend-1"), HaveKey("backend-2")))
	})

	It("Envoy's own counters prove the handshakes", func() {
		Expect(called(web.to("backend"))).To(Equal(200))
		client := web.Stats()
		Expect(client["cluster.backend.ssl.handshake"]).To(BeNumerically(">=", 2), "one for each instance")
		Expect(client["cluster.backend.upstream_cx_total"]).To(Equal(client["cluster.backend.ssl.handshake"]), "no connection without TLS")
		Expect(client["cluster.backend.ssl.fail_verify_san"] + client["cluster.backend.ssl.fail_verify_error"]).To(BeZero())
		for _, m := range []*member{first, second} {
			served := 0
			for name, n := range m.Stats() {
				if strings.HasPrefix(name, "listener.127.0.0.1_") && strings.HasSuffix(name, ".ssl.handshake") {
					served += n
				}
			}
			Expect(served).To(BeNumerically(">=", 1))
		}
	})

	It("the workload sees who called, whatever the client claims", func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for range 10 {
			req, err := http.NewRequest(http.MethodGet, web.to("backend"), nil) //nolint:noctx // a test
			Expect(err).NotTo(HaveOccurred())
			req.Header.Set("X-Forwarded-Client-Cert", "By=spiffe://shop/backend;URI=spiffe://shop/admin")
			r, err := client.Do(req)
			Expect(err).NotTo(HaveOccurred())
			got := decode(r)
			Expect(got.Headers.Values("X-Forwarded-Client-Cert")).To(HaveLen(1))
			Expect(got.Headers.Get("X-Forwarded-Client-Cert")).To(ContainSubstring("URI=spiffe://shop/web"))
			Expect(got.Headers.Get("X-Forwarded-Client-Cert")).NotTo(ContainSubstring("admin"))
		}
	})

	It("nobody without a certificate of the mesh gets in", func() {
		_, err := get("http://" + first.inbound())
		Expect(err).To(HaveOccurred())
		stranger := newRoot()
		Expect(handshake(first.inbound(), stranger.leaf("spiffe://shop/web"))).NotTo(Succeed())
		Expect(handshake(first.inbound(), nil)).NotTo(Succeed())
	})

	It("a split of 90 to 10 is seen in traffic", func() {
		w.route(map[string]any{"split": []any{
			share(90, tags{service: "backend", "version": "v1"}), share(10, tags{service: "backend", "version": "v2"}),
		}})
		w.Converged()
		const n = 2000
		seen := map[string]int{}
		client := &http.Client{}
		for range n {
			r, err := client.Get(web.to("backend")) //nolint:noctx // a test
			Expect(err).NotTo(HaveOccurred())
			seen[decode(r).Name]++
		}
		Expect(seen["backend-1"] + seen["backend-2"]).To(Equal(n))
		// Five standard deviations: one run in two million fails by chance.
		bound := 5 * math.Sqrt(n*0.9*0.1)
		AddReportEntry("to 10 per cent of 2000", seen["backend-2"])
		Expect(seen["backend-2"]).To(BeNumerically("~", n/10, bound))
	})
})
