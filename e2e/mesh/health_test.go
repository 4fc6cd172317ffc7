package mesh_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
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
