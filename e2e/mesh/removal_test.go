package mesh_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a proxy that is gone", Ordered, func() {
	var (
		w        *world
		web      *member
		operator *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT", "--dataplane-remove-after", "2s")
		operator = w.start("backend-0", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, operator)
		answers(web.to("backend"), 200)
	})

	// registered starts a member of backend that registers itself.
	registered := func(name string) *member {
		m := w.describe(name, tags{service: "backend"})
		file := filepath.Join(GinkgoT().TempDir(), "dataplane.yaml")
		writeFile(file, []byte(fmt.Sprintf(`type: Dataplane
mesh: %s
name: %s
networking:
  address: 127.0.0.1
  inbound:
  - port: %d
    servicePort: %d
    tags: {mesh.io/service: backend, mesh.io/protocol: http}
`, shop, name, m.port, m.work.Port)))
		m.Sidecar = framework.NewSidecar(w.cp, shop, name, file).Start()
		w.ready(m)
		return m
	}
	exists := func(name string) func() bool {
		return func() bool {
			return w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/"+name, nil).Status == http.StatusOK
		}
	}
	// crash ends agent and Envoy without a chance to say goodbye.
	crash := func(m *member) {
		envoy := framework.RunningEnvoy(m.StateDir)
		Expect(envoy).NotTo(BeZero())
		m.Kill()
		Expect(syscall.Kill(envoy, syscall.SIGKILL)).To(Succeed())
	}

	It("takes along the endpoint that its agent registered, and comes back with it", func() {
		m := registered("backend-1")
		crash(m)
		Eventually(exists("backend-1"), patience).Should(BeFalse())
		w.Converged()
		for range 50 {
			Expect(called(web.to("backend"))).To(Equal(200), "nobody asks the endpoint that is gone")
		}
		m.Start()
		w.ready(m)
		Expect(exists("backend-1")()).To(BeTrue())
	})

	It("that was only cut off registers again", func() {
		m := registered("backend-2")
		m.Signal(syscall.SIGSTOP)
		Eventually(exists("backend-2"), "60s").Should(BeFalse())
		m.Signal(syscall.SIGCONT)
		Eventually(exists("backend-2"), patience).Should(BeTrue())
		Eventually(func() bool { return w.overview("backend-2").online() }, patience).Should(BeTrue())
		m.Stop()
		Expect(exists("backend-2")()).To(BeFalse(), "it still owns the Dataplane")
	})

	It("leaves what an operator wrote", func() {
		online := func() bool { return w.overview("backend-0").online() }
		crash(operator)
		Eventually(online, patience).Should(BeFalse())
		m := registered("backend-3")
		crash(m)
		Eventually(exists("backend-3"), patience).Should(BeFalse())
		Expect(exists("backend-0")()).To(BeTrue(), "though it was gone for longer")
	})
})
