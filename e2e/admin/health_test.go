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
		Eventually(healthOf, "1m", "100ms").WithArguments(api, "api.example").Should(Equal(map[string]string{good: "HEALTHY", "127.0.0.1:1": "UNHEALTHY"}))
	})

	It("says which name is not resolved, without health checks too", func() {
		c := framework.NewControlPlane("standalone", "--store-type", "memory").Start()
		api := c.API()
		api.Must(http.StatusCreated, http.MethodPost, "/upstreams", map[string]any{"name": "names.example"})
		for _, target := range []string{"localhost:9", "nobody.invalid:80"} {
			api.Must(http.StatusCreated, http.MethodPost, "/upstreams/names.example/targets", map[string]any{"target": target})
		}
		api.Must(http.StatusCreated, http.MethodPost, "/services", map[string]any{"name": "s", "host": "names.example"})
		api.Must(http.StatusCreated, http.MethodPost, "/services/s/routes", map[string]any{"paths": []string{"/s"}})
		Eventually(healthOf, "1m", "100ms").WithArguments(api, "names.example").Should(Equal(map[string]string{"localhost:9": "HEALTHCHECKS_OFF", "nobody.invalid:80": "DNS_ERROR"}))
	})
})

// healthOf is the health of the targets of an upstream.
func healthOf(api *framework.API, upstream string) map[string]string {
	out := map[string]string{}
	data, _ := api.Must(http.StatusOK, http.MethodGet, "/upstreams/"+upstream+"/health", nil).JSON()["data"].([]any)
	for _, d := range data {
		target, _ := d.(map[string]any)
		out[fmt.Sprint(target["target"])] = fmt.Sprint(target["health"])
	}
	return out
}
