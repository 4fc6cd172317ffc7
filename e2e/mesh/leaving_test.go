package mesh_test

import (
	"net/http"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A service of two, of which one is stopped while others call it. Nothing waits for a
// load balancer here: it is the other proxies that must know.
var _ = Describe("a sidecar that leaves", Ordered, func() {
	var (
		w   *world
		web *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		stays := w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(stays, web)
		answers(web.to("backend"), 200)
	})

	It("costs those that call it no request", func() {
		leaves := w.registering("backend-2", "--drain-delay", "0s", "--drain-timeout", "4s")
		w.ready(leaves)
		load := framework.StartTraffic(web.to("backend"), http.Header{}, 4)
		Eventually(func() (n int) {
			for name, value := range leaves.Stats() {
				if strings.HasSuffix(name, ".downstream_rq_completed") && !strings.HasPrefix(name, "http.admin.") {
					n += value
				}
			}
			return n
		}, patience, 50*time.Millisecond).Should(BeNumerically(">", 50), "it is called")
		load.Served(100)
		leaves.Signal(syscall.SIGTERM)
		Expect(leaves.Exit(30*time.Second)).To(Equal(0), leaves.Output())
		load.Served(200)
		none(load)
		Expect(leaves.Output()).NotTo(ContainSubstring("could not be told"))
		Expect(w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/backend-2", nil).Status).To(Equal(http.StatusNotFound))
	})
})
