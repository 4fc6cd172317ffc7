package mesh_test

import (
	"crypto/tls"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// claims is what the proxy of web would write into a header about its caller.
const claims = "By=spiffe://shop/backend;URI=mesh://mesh.io/service/web;URI=mesh://team/a;URI=spiffe://shop/web;"

var _ = Describe("fault injection", Ordered, core, func() {
	var (
		w                   *world
		web, other, backend *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop)
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web", "team": "a"}, "backend")
		other = w.start("other-1", tags{service: "other"}, "backend")
		w.ready(web, other, backend)
		answers(web.to("backend"), 200)
		answers(other.to("backend"), 200)
	})

	// inject makes faults for some callers of backend.
	inject := func(name string, from tags, conf map[string]any) {
		w.Put("fault-injections", policy("FaultInjection", name, from, tags{service: "backend", protocol: "http"}, conf))
		w.Converged()
	}
	abort := func(status int) map[string]any {
		return map[string]any{"abort": map[string]any{"percentage": 100, "httpStatus": status}}
	}

	It("faults are for the callers that their certificates prove, whatever a caller says himself", func() {
		inject("web", tags{service: "web", "team": "a"}, abort(418))
		answers(web.to("backend"), 418) // connections of before the first fault drain
		Expect(called(other.to("backend"))).To(Equal(200))
		claimed := func() int {
			r, err := framework.Do(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, http.MethodGet, other.to("backend"), http.Header{"X-Forwarded-Client-Cert": {claims}}, "")
			Expect(err).NotTo(HaveOccurred())
			return r.Status
		}
		Expect(claimed()).To(Equal(200), "who claims to be web is not web")
		inject("web", tags{service: "web", "team": "b"}, abort(418))
		Expect(called(web.to("backend"))).To(Equal(200))
		inject("web", tags{service: "*", "team": "*"}, abort(418))
		Expect(called(web.to("backend"))).To(Equal(418))
		Expect(called(other.to("backend"))).To(Equal(200))
		Expect(claimed()).To(Equal(200), "who claims to have a team has none")
	})

	It("once the proxies have confirmed it, a change is in force on connections that are open", func() {
		open := keepAlive(web.port2("backend"))
		Expect(open.get()).To(Equal(418))
		drained := backend.Stat("listener_manager.total_filter_chains_draining") + backend.Stat("listener_manager.listener_modified")
		inject("web", tags{service: "web"}, abort(451))
		Expect(open.get()).To(Equal(451))
		Expect(open.reconnected()).To(BeFalse())
		Expect(backend.Stat("listener_manager.total_filter_chains_draining")+backend.Stat("listener_manager.listener_modified")).To(Equal(drained), "a listener was changed")
	})

	It("aborts are for their share of the requests", func() {
		inject("web", tags{service: "web"}, map[string]any{"abort": map[string]any{"percentage": 30, "httpStatus": 418}})
		aborted := 0
		for range 400 {
			if called(web.to("backend")) == 418 {
				aborted++
			}
		}
		AddReportEntry("aborted of 400, expected 120", aborted)
		// 120 are expected, and 9.2 is the standard deviation: one run in a billion is outside.
		Expect(aborted).To(And(BeNumerically(">", 64), BeNumerically("<", 176)))
	})

	It("answers are as slow as their bandwidth", func() {
		work := startScripted()
		files := w.serving("files-1", tags{service: "files", protocol: "http"}, work)
		reader := w.start("reader-1", tags{service: "reader"}, "files")
		w.ready(files, reader)
		answers(reader.to("files"), 200)
		load := func(of string) time.Duration {
			w.Put("fault-injections", policy("FaultInjection", "files", tags{service: "reader"}, tags{service: "files", protocol: "http"},
				map[string]any{"responseBandwidth": map[string]any{"percentage": 100, "limit": of}}))
			w.Converged()
			since := time.Now()
			r, err := get(reader.to("files") + "/bytes/250000")
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Body).To(HaveLen(250000))
			return time.Since(since)
		}
		// Connections of before the first fault have no filter.
		Eventually(func() time.Duration { return load("1 mbps") }, patience).Should(BeNumerically(">=", 1500*time.Millisecond), "2 s by the bandwidth")
		Expect(load("1 mbps")).To(And(BeNumerically(">=", 1500*time.Millisecond), BeNumerically("<", 10*time.Second)))
		// A busy machine may be as slow as that once, but not each time.
		Eventually(func() time.Duration { return load("1 gbps") }, patience).Should(BeNumerically("<", 1500*time.Millisecond))
		w.Delete(shop, "fault-injections", "files")
	})

	It("every policy that matches takes effect", func() {
		inject("web", tags{service: "web"}, abort(451))
		inject("slow", tags{service: "*"}, map[string]any{"delay": map[string]any{"percentage": 100, "value": "300ms"}})
		delayed := func() time.Duration {
			since := time.Now()
			Expect(called(other.to("backend"))).To(Equal(200))
			return time.Since(since)
		}
		// A busy machine alone may take as long once, but not each time.
		Eventually(delayed, patience, 10*time.Millisecond).Should(BeNumerically(">=", 300*time.Millisecond-coarse))
		for range 5 {
			Expect(delayed()).To(BeNumerically(">=", 300*time.Millisecond-coarse))
		}
		Expect(called(web.to("backend"))).To(Equal(451))
		w.Delete(shop, "fault-injections", "slow")
		w.Delete(shop, "fault-injections", "web")
		w.Converged()
		answers(web.to("backend"), 200)
	})

	// The proxy of a caller takes away what its workload claims, but a caller may be without one.
	It("who has a certificate is nobody else, whatever it claims", func() {
		authority := newRoot()
		w.rotate(authority)
		leaf := authority.leaf("spiffe://shop/other")
		Eventually(func() error { return handshake(backend.inbound(), leaf) }, patience, "50ms").Should(Succeed())
		inject("web", tags{service: "web", "team": "a"}, abort(418))
		answers(web.to("backend"), 418)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, NextProtos: []string{"mesh"}, Certificates: []tls.Certificate{*leaf},
		}}}
		for _, claim := range []string{"", claims} {
			r, err := framework.Do(client, http.MethodGet, "https://"+backend.inbound(), http.Header{"X-Forwarded-Client-Cert": {claim}}, "")
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200), claim)
		}
	})
})
