package mesh_test

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

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
		// The gateway and the sidecars dial anew without a word what was closed. So what door's sidecar has
		// accepted and dialled is counted, and what backend's has ended: web's may open one of its own.
		connections := func() []int {
			return []int{
				door.Stat(fmt.Sprintf("listener.127.0.0.1_%d.downstream_cx_total", door.out["backend"])),
				door.Stat("cluster.backend.upstream_cx_total"),
				backend.Stat(fmt.Sprintf("listener.127.0.0.1_%d.downstream_cx_destroy", backend.port)),
			}
		}
		before := connections()
		Expect(before[:2]).To(HaveEach(BeNumerically(">", 0)), "nothing is counted")
		others := func() int { return called(web.to("backend")) }
		allow("web")
		follow(open.get, 403)
		follow(others, 200)
		allow("door")
		follow(open.get, 200)
		follow(others, 403)
		Expect(open.reconnected()).To(BeFalse())
		Expect(connections()).To(Equal(before), "a permission has closed connections")
	})

	It("listen to nothing but their outbounds, and are no destination", func() {
		listeners, err := door.Admin("/listeners")
		Expect(err).NotTo(HaveOccurred())
		Expect(listeners).To(ContainSubstring("outbound:127.0.0.1:"))
		Expect(listeners).NotTo(ContainSubstring("inbound:"))
		// With a permission, nothing but the lack of an endpoint keeps web from calling it.
		w.Put("traffic-permissions", policy("TrafficPermission", "door", tags{service: "web"}, tags{service: "door"}, nil))
		w.Converged()
		clusters, err := web.Admin("/clusters")
		Expect(err).NotTo(HaveOccurred())
		Expect(clusters).To(ContainSubstring("\ndoor::"), "web has no cluster of it")
		Expect(clusters).To(MatchRegexp(`(?m)^backend::127\.0\.0\.1:`))
		Expect(clusters).NotTo(MatchRegexp(`(?m)^door::[^:]+:\d+::`), "web has an endpoint of it")
		// Nobody says that it speaks HTTP, so there is no answer: web's sidecar closes the connection.
		unserved := web.Stat("cluster.door.upstream_cx_none_healthy")
		Expect(called(web.to("door"))).To(BeZero())
		Expect(web.Stat("cluster.door.upstream_cx_none_healthy")).To(Equal(unserved + 1))
		Eventually(func() any { return w.Get("/meshes/" + shop + "/service-insights/door")["serviceType"] }, patience).Should(Equal("gateway_delegated"))
	})
})
