package mesh_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("an address that one listener leaves to another", func() {
	It("is taken over at once, and nothing is refused", func() {
		w := newWorld("")
		backend := w.start("backend-1", tags{service: "backend"})
		web := w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, backend)
		answers(web.to("backend"), 200)

		By("an inbound where an outbound was, which moves to where the inbound was")
		networking := web.doc["networking"].(map[string]any)
		networking["inbound"].([]any)[0].(map[string]any)["port"] = web.out["backend"]
		networking["outbound"].([]any)[0].(map[string]any)["port"] = web.port
		w.Put("dataplanes", web.doc)
		w.Converged()
		Expect(w.overview("web-1").Errors).To(BeEmpty())
		body := func(port int) func() string {
			return func() string {
				r, err := get(fmt.Sprintf("http://127.0.0.1:%d", port))
				if err != nil {
					return err.Error()
				}
				return r.Body
			}
		}
		Eventually(body(web.port), patience).Should(ContainSubstring("backend-1"))
		Eventually(body(web.out["backend"]), patience).Should(ContainSubstring("web-1"))
	})
})
