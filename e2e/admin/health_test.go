package admin_test

import (
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("the health of targets", func() {
	It("is what the gateway's Envoy sees", func() {
		up := framework.StartUpstream()
		c := framework.NewControlPlane("standalone", "--store-type", "memory").Start()
		api := c.API()
		api.Must(http.StatusOK, http.MethodPut, "/upstreams/api.example", map[string]any{"healthchecks": map[string]any{
			"active": map[string]any{
				"healthy": map[string]any{"interval": 0.1, "successes": 1}, "unhealthy": map[string]any{"interval": 0.1, "tcp_failures": 1, "http_failures": 1},
			},
		}})
		good := "127.0.0.1:" + up.Port()
		api.Must(http.StatusCreated, http.MethodPost, "/upstreams/api.example/targets", map[string]any{"target": good})
		// Nothing listens at port 1.
		api.Must(http.StatusCreated, http.MethodPost, "/upstreams/api.example/targets", map[string]any{"target": "127.0.0.1:1"})
		api.Must(http.StatusCreated, http.MethodPost, "/services", map[string]any{"name": "s", "host": "api.example"})
		api.Must(http.StatusCreated, http.MethodPost, "/services/s/routes", map[string]any{"paths": []string{"/s"}})
		Eventually(func() map[string]string {
			out := map[string]string{}
			data, _ := api.Must(http.StatusOK, http.MethodGet, "/upstreams/api.example/health", nil).JSON()["data"].([]any)
			for _, d := range data {
				target, _ := d.(map[string]any)
				out[fmt.Sprint(target["target"])] = fmt.Sprint(target["health"])
			}
			return out
		}, "20s", "100ms").Should(Equal(map[string]string{good: "HEALTHY", "127.0.0.1:1": "UNHEALTHY"}))
	})
})
