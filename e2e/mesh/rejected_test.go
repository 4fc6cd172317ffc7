package mesh_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a dataplane that Envoy does not take", Ordered, func() {
	var (
		w            *world
		web, backend *member
		load         *framework.Load
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend", "odd")
		w.ready(web, backend)
		answers(web.to("backend"), 200)
	})

	BeforeEach(func() {
		load = framework.StartTraffic(web.to("backend"), http.Header{}, 1)
		load.Served(50)
	})

	// problem waits until the overview of a dataplane has an error with a text.
	problem := func(name, text string) {
		EventuallyWithOffset(1, func() string {
			o := w.overview(name)
			all := o.Errors
			for _, s := range o.Insight.Subscriptions {
				for _, n := range s.Rejected {
					all = append(all, n.Error)
				}
			}
			return strings.Join(all, "\n")
		}, patience, 20*time.Millisecond).Should(ContainSubstring(text))
	}

	// unharmed proves that changes still reach everybody else.
	unharmed := func() {
		for _, name := range []string{"web-1", "backend-1"} {
			// Whether somebody serves odd is no matter of theirs.
			Expect(slices.DeleteFunc(w.overview(name).Errors, func(e string) bool { return strings.HasSuffix(e, `no dataplane of the mesh serves "odd"`) })).To(BeEmpty(), name)
		}
		before := web.Stat("cluster_manager.cds.update_success")
		w.route(map[string]any{"destination": tags{service: "backend"}, "loadBalancer": map[string]any{"random": map[string]any{}}})
		Eventually(func() int { return web.Stat("cluster_manager.cds.update_success") }, patience).Should(BeNumerically(">", before))
		w.route(map[string]any{"destination": tags{service: "backend"}})
		load.Served(50)
		none(load)
		for name, n := range web.Stats() {
			if strings.HasSuffix(name, ".update_rejected") {
				Expect(n).To(BeZero(), name)
			}
		}
	}

	It("because a port is taken: its other ports work", func() {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(taken.Close)
		odd := w.describe("odd-1", tags{service: "odd"})
		work := framework.StartWorkload("odd-too")
		networking := odd.doc["networking"].(map[string]any)
		networking["inbound"] = append(networking["inbound"].([]any), map[string]any{
			"port": taken.Addr().(*net.TCPAddr).Port, "servicePort": work.Port, "tags": tags{service: "odd-too", protocol: "http"},
		})
		w.Put("dataplanes", odd.doc)
		status := framework.FreePorts(1)[0]
		odd.Sidecar = framework.NewSidecar(w.cp, shop, "odd-1", "", "--status-listen", "127.0.0.1", "--status-port", fmt.Sprint(status)).Start()
		problem("odd-1", "in use")
		answers(web.to("odd"), 200)
		at := taken.Addr().String()
		Eventually(func() string {
			r, err := get(fmt.Sprintf("http://127.0.0.1:%d/ready", status))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(r.Status, " ", r.Body)
		}, patience, 20*time.Millisecond).Should(And(HavePrefix("503 "), ContainSubstring("envoy refused inbound:"+at)))
		Eventually(odd.Output, patience).Should(ContainSubstring("proxy is not ready: envoy refused a listener"))
		Expect(odd.Output()).NotTo(ContainSubstring("proxy is ready"))
		rejected := odd.Stat("listener_manager.lds.update_rejected")
		unharmed()
		Expect(odd.Stat("listener_manager.lds.update_rejected")).To(Equal(rejected), "the same is not sent again")
		// Without that inbound nothing is missing.
		networking["inbound"] = networking["inbound"].([]any)[:1]
		w.Put("dataplanes", odd.doc)
		Eventually(func() error { return framework.Ready(status) }, patience, 20*time.Millisecond).Should(Succeed())
		Eventually(odd.Output, patience).Should(ContainSubstring("proxy is ready"))
		odd.Stop()
		w.Delete(shop, "dataplanes", "odd-1")
	})

	It("or that nobody can reach, because its address is a name that does not exist", func() {
		odd := w.describe("odd-2", tags{service: "odd"})
		odd.doc["networking"].(map[string]any)["address"] = "odd.invalid"
		w.join(odd)
		unharmed()
		odd.Stop()
		w.Delete(shop, "dataplanes", "odd-2")
	})

	It("because two of its ports are one", func() {
		odd := w.describe("odd-3", tags{service: "odd"}, "backend")
		odd.doc["networking"].(map[string]any)["outbound"].([]any)[0].(map[string]any)["port"] = odd.port
		r := w.Mesh(http.MethodPut, "/meshes/"+shop+"/dataplanes/odd-3", odd.doc)
		if r.Status == http.StatusBadRequest {
			Expect(r.Body).To(ContainSubstring("invalid_parameters"))
		} else {
			Expect(r.Status).To(Equal(http.StatusCreated), r.Body)
			odd.Sidecar = framework.NewSidecar(w.cp, shop, "odd-3", "").Start()
			problem("odd-3", "an inbound listens on")
			odd.Stop()
			w.Delete(shop, "dataplanes", "odd-3")
		}
		unharmed()
	})
})
