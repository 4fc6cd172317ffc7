package mesh_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The first request that a proxy answers obeys what was written before it was there.
var _ = Describe("first requests", Ordered, core, func() {
	var (
		w   *world
		web *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, w.start("backend-1", tags{service: "backend", "version": "v1"}), w.start("backend-2", tags{service: "backend", "version": "v2"}))
		answers(web.to("backend"), 200)
	})

	to := func(version string) {
		w.route(map[string]any{"destination": tags{service: "backend", "version": version}})
	}
	// first is who answers the first request that gets an answer.
	first := func(m *member) string {
		GinkgoHelper()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			if r, err := get(m.to("backend")); err == nil {
				return r.Received().Name
			}
		}
		Fail("no answer")
		return ""
	}

	It("after two changes at once, the second is in force and stays", func() {
		for range 20 {
			to("v2")
			to("v1")
			w.Converged()
			for range 5 {
				Expect(first(web)).To(Equal("backend-1"))
			}
		}
	})

	// A proxy that is started in a spec ends with it.
	It("of a proxy that comes back and missed a change", func() {
		to("v1")
		w.Converged()
		Expect(first(web)).To(Equal("backend-1"))
		web.Stop()
		to("v2")
		web.Sidecar.Start()
		Expect(first(web)).To(Equal("backend-2"))
	})

	It("of a proxy that registered after the change, in the same moment", func() {
		to("v1")
		another := w.start("web-2", tags{service: "web"}, "backend")
		Expect(first(another)).To(Equal("backend-1"))
	})
})
