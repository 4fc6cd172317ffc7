package mesh_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("locality", Ordered, core, func() {
	const zone = "mesh.io/zone"
	var (
		w         *world
		web       *member
		near, far *member
	)

	mesh := func(aware bool) {
		w.Put("meshes", framework.Document{
			"type": "Mesh", "name": shop, "routing": map[string]any{"localityAwareLoadBalancing": aware},
			"mtls": map[string]any{"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin"}}},
		})
		w.Converged()
	}
	// counted is how many of 60 requests each endpoint answers; "" is a failure.
	counted := func() map[string]int {
		seen := map[string]int{}
		for range 60 {
			r, err := framework.Do(http.DefaultClient, http.MethodGet, web.to("backend"), http.Header{}, "")
			if err != nil || r.Status != http.StatusOK {
				seen[""]++
				continue
			}
			seen[r.Received().Name]++
		}
		return seen
	}

	BeforeAll(func() {
		w = newWorld("STRICT")
		near = w.start("backend-1", tags{service: "backend", zone: "east"})
		far = w.start("backend-2", tags{service: "backend", zone: "west"})
		web = w.start("web-1", tags{service: "web", zone: "east"}, "backend")
		w.ready(near, far, web)
		answers(web.to("backend"), 200)
	})

	It("without it all endpoints are called", func() {
		seen := counted()
		Expect(seen).To(And(HaveKey("backend-1"), HaveKey("backend-2")))
	})

	It("with it those of the own zone are called", func() {
		mesh(true)
		Eventually(counted, patience).Should(Equal(map[string]int{"backend-1": 60}))
	})

	It("those of another zone are called when the own zone has none left, and no longer when it has", func() {
		w.Delete(shop, "dataplanes", "backend-1")
		w.Converged()
		Expect(counted()).To(Equal(map[string]int{"backend-2": 60}))
		w.Put("dataplanes", near.doc)
		Eventually(counted, patience).Should(Equal(map[string]int{"backend-1": 60}))
	})

	It("and when that of the own zone fails its checks", func() {
		w.Put("health-checks", policy("HealthCheck", "backend", tags{service: "web"}, tags{service: "backend"}, map[string]any{
			"interval": "100ms", "timeout": "2s", "unhealthyThreshold": 1, "healthyThreshold": 1, "tcp": map[string]any{},
		}))
		w.Converged()
		near.Stop()
		Eventually(counted, patience).Should(Equal(map[string]int{"backend-2": 60}))
		mesh(false)
	})
})
