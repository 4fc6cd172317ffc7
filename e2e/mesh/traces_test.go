package mesh_test

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// backend is a tracing backend of the mesh.
type backend struct {
	name, kind string
	sampling   float64
	conf       map[string]any
}

// tracing gives the mesh tracing backends, of which the first is the default.
func (w *world) tracing(backends ...backend) {
	var list []any
	for _, b := range backends {
		list = append(list, map[string]any{"name": b.name, "type": b.kind, "sampling": b.sampling, "conf": b.conf})
	}
	w.Put("meshes", framework.Document{
		"type": "Mesh", "name": shop, "mtls": map[string]any{"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin"}}},
		"tracing": map[string]any{"defaultBackend": backends[0].name, "backends": list},
	})
}

// trace has every proxy of the mesh send spans to a backend.
func (w *world) trace(backend string) {
	w.Put("traffic-traces", framework.Document{
		"type": "TrafficTrace", "mesh": shop, "name": "all", "selectors": []any{map[string]any{"match": tags{service: "*"}}}, "conf": map[string]any{"backend": backend},
	})
}

var _ = Describe("traces", Ordered, func() {
	var (
		w             *world
		web, server   *member
		first, second *receiver
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		server = w.start("backend-1", tags{service: "backend", "mesh.io/zone": "east"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, server)
		answers(web.to("backend"), 200)
		first, second = startReceiver(), startReceiver()
	})

	zipkin := func(r *receiver, more map[string]any) backend {
		conf := map[string]any{"url": r.URL + "/api/v2/spans"}
		for k, v := range more {
			conf[k] = v
		}
		return backend{"z", "zipkin", 100, conf}
	}
	// ask sends a request, and returns what the workload received.
	ask := func(header http.Header) http.Header {
		GinkgoHelper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
		r, err := framework.Do(client, http.MethodGet, web.to("backend")+"/secret?key=secret", header, "")
		Expect(err).NotTo(HaveOccurred())
		return r.Received().Headers
	}
	// whole asks until a trace of two spans has arrived. Proxies collect some spans before they
	// send them, and connections of before a change may serve some requests still.
	whole := func(r *receiver, trace func(http.Header) string) (client, server span) {
		GinkgoHelper()
		var asked []string
		var found []span
		Eventually(func() []span {
			// Envoy gives spans of gRPC more tags, one of which is the path.
			asked = append(asked, trace(ask(http.Header{"Content-Type": {"application/grpc"}})))
			for _, id := range asked {
				if found = r.of(id); len(found) == 2 {
					return found
				}
			}
			return nil
		}, patience, 20*time.Millisecond).Should(HaveLen(2))
		for _, s := range found {
			Expect(s.tags).NotTo(ContainElement(ContainSubstring("secret")), "paths may contain tokens")
		}
		return found[0], found[1]
	}
	b3 := func(h http.Header) string { return h.Get("X-B3-Traceid") }
	traceparent := func(h http.Header) string {
		parts := strings.Split(h.Get("Traceparent"), "-")
		if len(parts) != 4 {
			return ""
		}
		return parts[1]
	}

	It("Zipkin: both proxies of a request have one span, by whom it is and where", func() {
		w.tracing(zipkin(first, nil))
		w.trace("")
		w.Converged()
		c, s := whole(first, b3)
		Expect(c.trace).To(HaveLen(16))
		Expect([]string{c.service, c.kind, c.parent, s.service, s.kind, s.parent}).To(Equal([]string{"web", "CLIENT", "", "backend", "SERVER", ""}))
		Expect(s.id).To(Equal(c.id))
		Expect([]bool{c.shared, s.shared}).To(Equal([]bool{false, true}))
		Expect(c.tags).To(And(HaveKeyWithValue("mesh", shop), HaveKeyWithValue("service", "web"), HaveKeyWithValue("upstream_cluster", "backend")))
		Expect(s.tags).To(And(HaveKeyWithValue("service", "backend"), HaveKeyWithValue("zone", "east"), HaveKeyWithValue("http.status_code", "200")))
	})

	It("Zipkin: in protobuf, with spans of their own and long ids", func() {
		w.tracing(zipkin(first, map[string]any{"apiVersion": "httpProto", "sharedSpanContext": false, "traceId128bit": true}))
		w.Converged()
		// Spans that are still on their way share ids.
		var c, s span
		Eventually(func() string { c, s = whole(first, b3); return s.parent }, patience).ShouldNot(BeEmpty())
		Expect(c.trace).To(HaveLen(32))
		Expect([]string{c.service, c.kind, c.parent, s.service, s.kind, s.parent}).To(Equal([]string{"web", "CLIENT", "", "backend", "SERVER", c.id}))
		Expect([]bool{c.shared, s.shared}).To(Equal([]bool{false, false}))
	})

	It("a request that comes with a decision keeps it", func() {
		const trace, parent = "463ac35c9f6413ad", "72485a3953bb6124"
		no := ask(http.Header{"X-B3-Traceid": {trace}, "X-B3-Spanid": {parent}, "X-B3-Sampled": {"0"}})
		Expect(no.Get("X-B3-Sampled")).To(Equal("0"))
		Expect(no.Get("X-B3-Traceid")).To(HaveSuffix(trace))
		whole(first, b3)
		Expect(first.requests()).NotTo(ContainElement(no.Get("X-Request-Id")))
	})

	It("another URL of a backend, and another backend of a policy, take effect", func() {
		w.tracing(zipkin(second, nil))
		w.Converged()
		whole(second, b3)
		other := zipkin(first, nil)
		other.name = "other"
		w.tracing(zipkin(second, nil), other)
		w.trace("other")
		w.Converged()
		whole(first, b3)
	})

	It("with sampling 0 nothing is sent, and the headers of others pass unchanged", func() {
		quiet := zipkin(first, nil)
		quiet.sampling = 0
		w.tracing(quiet)
		w.trace("")
		w.Converged()
		Eventually(func() string { return b3(ask(nil)) }, patience).Should(BeEmpty(), "connections of before are gone")
		var silent []string
		for range 10 {
			got := ask(http.Header{"X-B3-Traceid": {"463ac35c9f6413ad"}, "X-B3-Spanid": {"72485a3953bb6124"}, "X-B3-Sampled": {"1"}})
			Expect([]string{got.Get("X-B3-Traceid"), got.Get("X-B3-Spanid")}).To(Equal([]string{"463ac35c9f6413ad", "72485a3953bb6124"}))
			silent = append(silent, got.Get("X-Request-Id"))
		}
		w.tracing(zipkin(first, nil))
		w.Converged()
		whole(first, b3)
		for _, id := range silent {
			Expect(first.requests()).NotTo(ContainElement(id))
		}
	})

	for _, over := range []string{"gRPC", "HTTP"} {
		It("OpenTelemetry over "+over+": the server's span is below the client's, which is below the caller's", func() {
			endpoint := second.URL
			if over == "gRPC" {
				endpoint = second.grpc
			}
			w.tracing(backend{"o-" + over, "opentelemetry", 100, map[string]any{"endpoint": endpoint}})
			w.Converged()
			c, s := whole(second, traceparent)
			Expect([]string{c.service, c.kind, c.parent}).To(Equal([]string{"web", "SPAN_KIND_CLIENT", ""}))
			Expect([]string{s.service, s.kind, s.parent}).To(Equal([]string{"backend", "SPAN_KIND_SERVER", c.id}))
			Expect(s.tags).To(And(HaveKeyWithValue("mesh", shop), HaveKeyWithValue("zone", "east")))
			const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
			ask(http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01"}})
			whole(second, traceparent)
			Eventually(func() []span { return second.of(trace) }, patience).Should(ContainElement(WithTransform(func(s span) string { return s.parent }, Equal(parent))))
		})
	}

	It("Datadog: services by direction", func() {
		host, port, err := net.SplitHostPort(first.Listener.Addr().String())
		Expect(err).NotTo(HaveOccurred())
		number, err := strconv.Atoi(port)
		Expect(err).NotTo(HaveOccurred())
		w.tracing(backend{"d", "datadog", 100, map[string]any{"address": host, "port": number, "splitService": true}})
		w.Converged()
		id := func(h http.Header) string { return h.Get("X-Datadog-Trace-Id") }
		// Datadog names the kinds in small letters.
		c, s := whole(first, id)
		Expect([]string{c.service, s.service}).To(ConsistOf("web_OUTBOUND_backend", "backend_INBOUND"))
		if c.parent != "0" {
			c, s = s, c
		}
		Expect(s.parent).To(Equal(c.id))
		Expect(c.tags).To(HaveKeyWithValue("mesh", shop))
	})

	It("a collector that does not answer, or is not there, delays nothing", func() {
		silent := startReceiver()
		silent.release = make(chan struct{})
		w.tracing(zipkin(silent, nil))
		w.Converged()
		Eventually(func() int { ask(nil); return len(silent.arrived) }, patience).Should(BeNumerically(">", 0))
		for range 50 { // while reports are held
			ask(nil)
		}
		close(silent.release)
		for i, nowhere := range []string{fmt.Sprintf("http://127.0.0.1:%d/", framework.FreePorts(1)[0]), "http://nowhere.invalid:9411/", "http://169.254.169.254:80/"} {
			w.tracing(backend{fmt.Sprintf("nowhere-%d", i), "zipkin", 100, map[string]any{"url": nowhere}})
			w.Converged()
			for range 20 {
				ask(nil)
			}
		}
	})

	It("a backend that does not exist is said, and nothing is refused", func() {
		w.trace("missing")
		w.Converged()
		Eventually(func() []string { return w.overview("web-1").Errors }, patience).
			Should(ContainElement(ContainSubstring(`the mesh has no tracing backend "missing": nothing is traced`)))
		Expect(called(web.to("backend"))).To(Equal(200))
	})
})
