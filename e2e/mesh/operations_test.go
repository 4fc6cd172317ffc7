package mesh_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// Every operation of a ProxyTemplate that template_test.go does not make, seen by what Envoy
// does with requests, and by the order of its filters.
var _ = Describe("operations of a proxy template", Ordered, core, func() {
	var (
		w    *world
		web  *member
		work *scripted
		door int
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		work = startScripted()
		web = w.start("web-1", tags{service: "web"}, "backend", "ledger")
		w.ready(web, w.serving("backend-1", tags{service: "backend", protocol: "http"}, work),
			w.join(w.around("ledger-1", nil, framework.StartEcho("ledger-1"), tags{service: "ledger", protocol: "tcp"})))
		answers(web.to("backend"), 200)
		door = framework.FreePorts(1)[0]
	})
	AfterAll(func() { Expect(w.overview("web-1").Errors).To(BeEmpty()) })

	// op is one modification. Match is origin, name and so on, in pairs.
	op := func(sort, operation, value string, match ...string) any {
		m := map[string]any{"operation": operation}
		if value != "" {
			m["value"] = value
		}
		of := map[string]any{}
		for i := 0; i < len(match); i += 2 {
			of[match[i]] = match[i+1]
		}
		if len(of) > 0 {
			m["match"] = of
		}
		return map[string]any{sort: m}
	}
	template := func(ops ...any) {
		w.Put("proxytemplates", framework.Document{
			"type": "ProxyTemplate", "mesh": shop, "name": "web", "selectors": []any{map[string]any{"match": tags{service: "web"}}},
			"conf": map[string]any{"imports": []any{"default-proxy"}, "modifications": ops},
		})
		w.Converged()
	}
	at := func(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", door, path) }
	post := func(size int) func() int {
		return func() int {
			r, err := http.Post(web.to("backend"), "text/plain", bytes.NewReader(make([]byte, size))) //nolint:noctx // a test
			if err != nil {
				return 0
			}
			_ = r.Body.Close()
			return r.StatusCode
		}
	}
	const packed = "type.googleapis.com/envoy.extensions.filters."
	buffer := func(name string, limit int) string {
		return fmt.Sprintf(`{name: %s, typed_config: {"@type": %shttp.buffer.v3.Buffer, max_request_bytes: %d}}`, name, packed, limit)
	}
	atMost := func(connections int) string {
		return fmt.Sprintf(`{name: few, typed_config: {"@type": %snetwork.connection_limit.v3.ConnectionLimit, stat_prefix: few, max_connections: %d}}`, packed, connections)
	}
	// chain is the HTTP filters of the outbound to backend, as Envoy has them.
	chain := func() (names []string) {
		text, err := web.Admin("/config_dump?resource=dynamic_listeners")
		Expect(err).NotTo(HaveOccurred())
		var dump struct {
			Configs []struct {
				Active struct {
					Listener struct {
						Name         string `json:"name"`
						FilterChains []struct {
							Filters []struct {
								Config struct {
									HTTP []struct {
										Name string `json:"name"`
									} `json:"http_filters"`
								} `json:"typed_config"`
							} `json:"filters"`
						} `json:"filter_chains"`
					} `json:"listener"`
				} `json:"active_state"`
			} `json:"configs"`
		}
		Expect(json.Unmarshal([]byte(text), &dump)).To(Succeed())
		for _, c := range dump.Configs {
			if c.Active.Listener.Name != fmt.Sprintf("outbound:127.0.0.1:%d", web.out["backend"]) {
				continue
			}
			for _, f := range c.Active.Listener.FilterChains[0].Filters {
				for _, h := range f.Config.HTTP {
					names = append(names, h.Name)
				}
			}
		}
		return names
	}

	It("cluster and listener: add, patch and remove", func() {
		const cluster = `{name: direct, type: STRICT_DNS, connect_timeout: 1s, load_assignment: {cluster_name: direct, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 192.0.2.7, port_value: 9}}}}]}]}}`
		listener := fmt.Sprintf(`{name: door, address: {socket_address: {address: 127.0.0.1, port_value: %d}}, filter_chains: [{filters: [{name: http, typed_config: {
 "@type": %snetwork.http_connection_manager.v3.HttpConnectionManager, stat_prefix: door,
 route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {path: /hello}, direct_response: {status: 200}}, {match: {prefix: /}, route: {cluster: direct, timeout: 0.2s}}]}]},
 http_filters: [{name: router, typed_config: {"@type": %shttp.router.v3.Router}}]}}]}]}`, door, packed, packed)
		template(op("cluster", "add", cluster), op("listener", "add", listener))
		answers(at("/hello"), 200)
		Expect(called(at("/away"))).To(BeElementOf(503, 504), "nobody is there")
		template(
			op("cluster", "add", cluster), op("listener", "add", listener),
			op("cluster", "patch", "per_connection_buffer_limit_bytes: 4096", "name", "direct"),
			op("listener", "patch", "per_connection_buffer_limit_bytes: 8192", "name", "door"),
			op("cluster", "patch", "connect_timeout: 0.7s", "name", "backend", "origin", "outbound"),
		)
		for want, resource := range map[string]string{`"per_connection_buffer_limit_bytes": 8192`: "dynamic_listeners", `"per_connection_buffer_limit_bytes": 4096`: "dynamic_active_clusters", `"connect_timeout": "0.700s"`: "dynamic_active_clusters"} {
			Eventually(func() (string, error) { return web.Admin("/config_dump?resource=" + resource) }, patience, "20ms").Should(ContainSubstring(want))
		}
		template(
			op("cluster", "add", cluster), op("listener", "add", listener), op("listener", "remove", "", "name", "door"),
			op("listener", "remove", "", "name", fmt.Sprintf("outbound:127.0.0.1:%d", web.out["backend"])),
		)
		Eventually(func() int { return called(at("/hello")) }, patience, "10ms").Should(BeZero())
		Eventually(func() int { return called(web.to("backend")) }, patience, "10ms").Should(BeZero())
		template()
		answers(web.to("backend"), 200)
	})

	It("network filters: addFirst, addLast, addBefore, addAfter, patch and remove", func() {
		ledger := fmt.Sprintf("outbound:127.0.0.1:%d", web.out["ledger"])
		const proxy = "envoy.filters.network.tcp_proxy"
		// second is what a second connection is answered with while a first one is open.
		second := func() string {
			first, lines := dialEcho(web.port2("ledger"))
			defer func() { _ = first.Close() }()
			if first.say(lines, "one") == "" {
				return "not even one"
			}
			another, more := dialEcho(web.port2("ledger"))
			defer func() { _ = another.Close() }()
			return another.say(more, "two")
		}
		Expect(second()).To(Equal("ledger-1 two"))
		for _, one := range []any{
			op("networkFilter", "addFirst", atMost(1), "listenerName", ledger),
			op("networkFilter", "addBefore", atMost(1), "listenerName", ledger, "name", proxy),
		} {
			template(one)
			Eventually(second, patience, "20ms").Should(BeEmpty())
			template()
			Eventually(second, patience, "20ms").Should(Equal("ledger-1 two"))
		}
		template(
			op("networkFilter", "addFirst", strings.Replace(atMost(100), "few", "many", 1), "listenerName", ledger),
			op("networkFilter", "addAfter", atMost(1), "listenerName", ledger, "name", "many"),
		)
		Eventually(second, patience, "20ms").Should(BeEmpty())
		template(
			op("networkFilter", "addFirst", atMost(1), "listenerName", ledger),
			op("networkFilter", "patch", atMost(2), "listenerName", ledger, "name", "few"),
		)
		Eventually(second, patience, "20ms").Should(Equal("ledger-1 two"))
		template(
			op("networkFilter", "addFirst", atMost(1), "listenerName", ledger),
			op("networkFilter", "remove", "", "listenerName", ledger, "name", "few"),
			op("networkFilter", "patch", fmt.Sprintf(`{typed_config: {"@type": %snetwork.http_connection_manager.v3.HttpConnectionManager, stream_idle_timeout: 1s}}`, packed), "origin", "outbound", "name", "envoy.filters.network.http_connection_manager"),
		)
		Eventually(second, patience, "20ms").Should(Equal("ledger-1 two"))
		work.always(never)
		answers(web.to("backend"), 504)
		work.always(200)
		template()
	})

	It("HTTP filters: addFirst, addLast, addBefore, addAfter, patch and remove, in this order", func() {
		out := []string{"origin", "outbound"}
		template(
			op("httpFilter", "addLast", buffer("last", 100), out...),
			op("httpFilter", "addFirst", buffer("first", 1000), out...),
			op("httpFilter", "addBefore", buffer("before", 1000), "name", "last", "origin", "outbound"),
			op("httpFilter", "addAfter", buffer("after", 1000), "name", "first", "origin", "outbound"),
			op("httpFilter", "addFirst", buffer("gone", 1), out...),
			op("httpFilter", "remove", "", "name", "gone"),
		)
		ours := func() (names []string) {
			for _, n := range chain() {
				if !strings.HasPrefix(n, "envoy.") || n == "envoy.filters.http.router" {
					names = append(names, n)
				}
			}
			return names
		}
		Eventually(ours, patience, "20ms").Should(Equal([]string{"first", "after", "before", "last", "envoy.filters.http.router"}))
		Eventually(post(500), patience, "20ms").Should(Equal(413))
		Expect(post(50)()).To(Equal(200))
		template(
			op("httpFilter", "addLast", buffer("last", 100), out...),
			op("httpFilter", "patch", buffer("last", 2000), "name", "last"),
		)
		Eventually(post(500), patience, "20ms").Should(Equal(200))
		Expect(post(5000)()).To(Equal(413))
		template()
		Eventually(post(5000), patience, "20ms").Should(Equal(200))
	})

	It("virtual hosts: add beside those of the mesh", func() {
		template(op("virtualHost", "add", `{name: old, domains: [old.example], routes: [{match: {prefix: /}, redirect: {host_redirect: new.example}}]}`, "routeConfigurationName", "outbound:backend"))
		moved := func(host string) func() int {
			return func() int {
				req, err := http.NewRequest(http.MethodGet, web.to("backend"), nil) //nolint:noctx // a test
				Expect(err).NotTo(HaveOccurred())
				req.Host = host
				r, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					return 0
				}
				_ = r.Body.Close()
				return r.StatusCode
			}
		}
		Eventually(moved("old.example"), patience, "20ms").Should(Equal(301))
		Expect(moved("backend")()).To(Equal(200))
		template()
	})
})
