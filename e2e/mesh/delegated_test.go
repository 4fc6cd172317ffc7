package mesh_test

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A gateway that is not ours stands before its sidecar: clients call it, and it calls services through
// the sidecar's outbounds.
var _ = Describe("delegated gateways", Ordered, core, func() {
	var (
		w                  *world
		door, web, backend *member
		front              *httptest.Server
	)
	// allow makes a permission to call backend the only one.
	allow := func(from string) {
		GinkgoHelper()
		w.Put("traffic-permissions", policy("TrafficPermission", "only", tags{service: from}, tags{service: "backend"}, nil))
		w.Converged()
	}

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "traffic-permissions", allowAll)
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend", "door")
		port := framework.FreePorts(1)[0]
		door = w.join(&member{out: map[string]int{"backend": port}, doc: framework.Document{
			"type": "Dataplane", "mesh": shop, "name": "door-1", "networking": map[string]any{
				"address":  "127.0.0.1",
				"gateway":  map[string]any{"type": "DELEGATED", "tags": tags{service: "door"}},
				"outbound": []any{map[string]any{"port": port, "tags": tags{service: "backend"}}},
			},
		}})
		to, err := url.Parse(door.to("backend"))
		Expect(err).NotTo(HaveOccurred())
		front = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
		DeferCleanup(func() { framework.EndServer(front) })
		allow("door")
		w.ready(backend, web, door)
	})

	It("call services with their own identity, with which they alone are permitted", func() {
		answers(front.URL, 200)
		r, err := get(front.URL + "/a?b=c")
		Expect(err).NotTo(HaveOccurred())
		got := r.Received()
		Expect([]string{got.Name, got.Path}).To(Equal([]string{"backend-1", "/a?b=c"}))
		Expect(strings.Join(got.Headers["X-Forwarded-Client-Cert"], " ")).To(ContainSubstring("URI=spiffe://shop/door"))
		Expect(door.Stat("cluster.backend.ssl.handshake")).To(BeNumerically(">", 0))
		answers(web.to("backend"), 403)
		_, err = get("http://" + backend.inbound())
		Expect(err).To(HaveOccurred(), "nobody comes past the gateway without a certificate")
	})

	It("are refused on connections that are open once the permission is another's", func() {
		open := keepAlive(front.Listener.Addr().String())
		Expect(open.get()).To(Equal(200))
		// The gateway would dial again without a word to its clients.
		dialled := func() []int {
			return []int{door.Stat("cluster.backend.upstream_cx_total"), door.Stat(fmt.Sprintf("listener.127.0.0.1_%d.downstream_cx_total", door.out["backend"]))}
		}
		before := dialled()
		Expect(before).To(HaveEach(BeNumerically(">", 0)))
		allow("web")
		Eventually(open.get, patience, 10*time.Millisecond).Should(Equal(403))
		Expect(open.reconnected()).To(BeFalse())
		Expect(dialled()).To(Equal(before))
		answers(web.to("backend"), 200)
		allow("door")
		Eventually(open.get, patience, 10*time.Millisecond).Should(Equal(200))
		answers(web.to("backend"), 403)
	})

	It("listen to nothing but their outbounds, and are no destination", func() {
		listeners, err := door.Admin("/listeners")
		Expect(err).NotTo(HaveOccurred())
		Expect(listeners).To(ContainSubstring("outbound:127.0.0.1:"))
		Expect(listeners).NotTo(ContainSubstring("inbound:"))
		w.Put("traffic-permissions", policy("TrafficPermission", "only", tags{service: "web"}, tags{service: "door"}, nil))
		w.Converged()
		Expect(called(web.to("door"))).To(BeZero(), "the connection is closed: nobody knows the protocol of what has no endpoint")
		clusters, err := web.Admin("/clusters")
		Expect(err).NotTo(HaveOccurred())
		Expect(clusters).To(And(ContainSubstring("door::"), Not(MatchRegexp(`door::[0-9.]+:[0-9]+::`))))
		Eventually(func() any { return w.Get("/meshes/" + shop + "/service-insights/door")["serviceType"] }, patience).Should(Equal("gateway_delegated"))
	})
})
