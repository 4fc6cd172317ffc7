package mesh_test

import (
	"fmt"
	"net"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("proxy template", Ordered, core, func() {
	var (
		w            *world
		web, backend *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, backend)
		answers(web.to("backend"), 200)
	})

	// template puts a template for the proxies of a service.
	template := func(of string, conf map[string]any) {
		conf["imports"] = []any{"default-proxy"}
		w.Put("proxytemplates", framework.Document{
			"type": "ProxyTemplate", "mesh": shop, "name": "x",
			"selectors": []any{map[string]any{"match": tags{service: of}}}, "conf": conf,
		})
		w.Converged()
	}
	modify := func(what string, change map[string]any) map[string]any {
		return map[string]any{"modifications": []any{map[string]any{what: change}}}
	}

	It("edits of routes are in force on connections that are open, and end with the template", func() {
		open := keepAlive(web.port2("backend"))
		Expect(open.get()).To(Equal(200))
		template("backend", modify("virtualHost", map[string]any{
			"operation": "patch", "match": map[string]any{"origin": "inbound"},
			"value": "response_headers_to_add: [{header: {key: x-served-by, value: template}}]",
		}))
		r, err := get(web.to("backend"))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Header.Get("x-served-by")).To(Equal("template"))
		Expect(open.get()).To(Equal(200))
		Expect(open.reconnected()).To(BeFalse())
		w.Delete(shop, "proxytemplates", "x")
		w.Converged()
		r, err = get(web.to("backend"))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Header.Values("x-served-by")).To(BeEmpty())
	})

	It("a filter is added where it says", func() {
		template("backend", modify("httpFilter", map[string]any{
			"operation": "addFirst", "match": map[string]any{"origin": "inbound"},
			"value": "name: cors\ntyped_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit, stat_prefix: x, " +
				"token_bucket: {max_tokens: 1, fill_interval: 3600s}, filter_enabled: {default_value: {numerator: 100}}, filter_enforced: {default_value: {numerator: 100}}}",
		}))
		answers(web.to("backend"), 429) // a request of the listener of before may come first
	})

	It("the second of two changes without a pause is in force", func() {
		for _, value := range []string{"first", "second"} {
			w.Put("proxytemplates", framework.Document{
				"type": "ProxyTemplate", "mesh": shop, "name": "x", "selectors": []any{map[string]any{"match": tags{service: "backend"}}},
				"conf": map[string]any{"imports": []any{"default-proxy"}, "modifications": []any{map[string]any{"virtualHost": map[string]any{
					"operation": "patch", "value": "response_headers_to_add: [{header: {key: x-served-by, value: " + value + "}}]",
				}}}},
			})
		}
		w.Converged()
		Eventually(func() string {
			r, err := get(web.to("backend"))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(r.Status, r.Header.Get("x-served-by"))
		}, patience).Should(Equal("200second"))
	})

	It("listeners and clusters of its own carry traffic", func() {
		port := framework.FreePorts(1)[0]
		template("web", map[string]any{"resources": []any{
			map[string]any{"name": "raw", "version": "v1", "resource": fmt.Sprintf(`
'@type': type.googleapis.com/envoy.config.listener.v3.Listener
name: raw
address: {socket_address: {address: 127.0.0.1, port_value: %d}}
filter_chains: [{filters: [{name: echo, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}]}]`, port)},
		}})
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = conn.Close() }()
		_, err = conn.Write([]byte("hello"))
		Expect(err).NotTo(HaveOccurred())
		answer := make([]byte, 5)
		_, err = conn.Read(answer)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(answer)).To(Equal("hello"))
		answers(web.to("backend"), 200)
	})

	It("a patch of a listener that cannot be ends its connections, and the overview says why; the others go on", func() {
		template("backend", modify("listener", map[string]any{
			"operation": "patch", "match": map[string]any{"origin": "inbound"}, "value": "per_connection_buffer_limit_bytes: 5\nconnection_balance_config: {}",
		}))
		Eventually(func() int { return called(web.to("backend")) }, patience).ShouldNot(Equal(200))
		Eventually(func() string { return strings.Join(w.overview("backend-1").Errors, "\n") }, patience).Should(ContainSubstring("ProxyTemplate x"))
		w.Delete(shop, "proxytemplates", "x")
		answers(web.to("backend"), 200)
	})
})
