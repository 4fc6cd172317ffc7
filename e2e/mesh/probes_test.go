package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// mortal is a workload that dies and comes back at one port.
type mortal struct {
	port   int
	server *http.Server
	calls  atomic.Int64
}

func (m *mortal) live() {
	lis, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", m.port))
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	m.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { m.calls.Add(1) })}
	go func(s *http.Server) { _ = s.Serve(lis) }(m.server)
}

func (m *mortal) die() { ExpectWithOffset(1, m.server.Close()).To(Succeed()) }

// held is whether the mesh holds the first inbound of a dataplane to be ready.
func (w *world) held(name string) bool { return w.holds(name, 0) }

// holds is whether the mesh holds an inbound of a dataplane to be ready.
func (w *world) holds(name string, inbound int) bool {
	r := w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/"+name, nil)
	ExpectWithOffset(1, r.Status).To(Equal(http.StatusOK), r.Body)
	var d struct {
		Networking struct {
			Inbound []struct {
				State  string `json:"state"`
				Health *struct {
					Ready bool `json:"ready"`
				} `json:"health"`
			} `json:"inbound"`
		} `json:"networking"`
	}
	ExpectWithOffset(1, json.Unmarshal([]byte(r.Body), &d)).To(Succeed(), r.Body)
	in := d.Networking.Inbound[inbound]
	ExpectWithOffset(1, in.Health).NotTo(BeNil(), r.Body)
	ExpectWithOffset(1, in.State == "").To(Equal(in.Health.Ready), r.Body)
	return in.Health.Ready
}

var _ = Describe("a workload with a service probe", Ordered, func() {
	var (
		w    *world
		work *mortal
		web  *member
		doc  framework.Document

		marks int
	)
	becomes := func(ready bool) {
		GinkgoHelper()
		measured(fmt.Sprintf("held as ready=%t after", ready), time.Now(), func() bool { return w.held("backend-2") == ready })
		// The agent has written it. A later revision, of a write that concerns nobody, is waited for.
		marks++
		w.Put("secrets", framework.Document{"type": "Secret", "name": "mark", "mesh": shop, "data": fmt.Sprintf("bWFy%04d", marks)})
		w.Converged()
	}

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop) // nothing else makes good what fails
		work = &mortal{port: framework.FreePorts(1)[0]}
		first := w.start("backend-1", tags{service: "backend"})
		second := w.around("backend-2", nil, work.port, tags{service: "backend", protocol: "http"})
		doc = second.doc
		doc["networking"].(map[string]any)["inbound"].([]any)[0].(map[string]any)["serviceProbe"] = map[string]any{
			"interval": "50ms", "timeout": "1s", "unhealthyThreshold": 2, "healthyThreshold": 2, "tcp": map[string]any{},
		}
		w.join(second)
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(first, second, web)
		answers(web.to("backend"), 200)
	})

	It("gets no request before it was found", func() {
		Expect(w.held("backend-2")).To(BeFalse())
		for range 50 {
			Expect(called(web.to("backend"))).To(Equal(200))
		}
		load := framework.StartTraffic(web.to("backend"), http.Header{}, 2)
		work.live()
		becomes(true)
		Eventually(work.calls.Load, patience, 10*time.Millisecond).Should(BeNumerically(">", 20))
		load.Served(100)
		none(load)
	})

	It("gets none after it died, and callers get the other instance", func() {
		work.die()
		becomes(false)
		load := framework.StartTraffic(web.to("backend"), http.Header{}, 2)
		load.Served(300)
		none(load)
	})

	It("stays what it is when somebody writes its dataplane", func() {
		w.Put("dataplanes", doc)
		Expect(w.held("backend-2")).To(BeFalse())
	})

	It("gets requests again when it is back", func() {
		load := framework.StartTraffic(web.to("backend"), http.Header{}, 2)
		before := work.calls.Load()
		work.live()
		becomes(true)
		Eventually(work.calls.Load, patience, 10*time.Millisecond).Should(BeNumerically(">", before+20))
		w.Put("dataplanes", doc)
		Expect(w.held("backend-2")).To(BeTrue())
		load.Served(100)
		none(load)
		work.die()
	})

	It("gets none while its proxy has no listener for it", func() {
		taken, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(taken.Close)
		third := w.describe("backend-3", tags{service: "backend"})
		n := third.doc["networking"].(map[string]any)
		probe := map[string]any{"interval": "20ms", "tcp": map[string]any{}}
		first := n["inbound"].([]any)[0].(map[string]any)
		first["serviceProbe"] = probe
		n["inbound"] = []any{map[string]any{
			"port": taken.Addr().(*net.TCPAddr).Port, "servicePort": third.work.Port, "tags": tags{service: "backend", protocol: "http"}, "serviceProbe": probe,
		}, first}
		w.join(third)
		Eventually(func() bool { return w.holds("backend-3", 1) }, patience, 20*time.Millisecond).Should(BeTrue())
		Expect(w.holds("backend-3", 0)).To(BeFalse(), "another process has its port")
		Expect(third.Output()).NotTo(ContainSubstring("cannot be probed"))
		third.Stop()
		w.Delete(shop, "dataplanes", "backend-3")
	})
})
