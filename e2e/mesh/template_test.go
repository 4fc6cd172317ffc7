package mesh_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("proxy template", Ordered, core, func() {
	var (
		w            *world
		web, backend *member
		door         int
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, backend)
		answers(web.to("backend"), 200)
		door = framework.FreePorts(1)[0]
	})

	// template replaces the template of web.
	template := func(conf map[string]any) {
		if conf["imports"] == nil {
			conf["imports"] = []any{"default-proxy"}
		}
		w.Put("proxytemplates", framework.Document{"type": "ProxyTemplate", "mesh": shop, "name": "web", "selectors": []any{map[string]any{"match": tags{service: "web"}}}, "conf": conf})
	}
	change := func(sort, operation string, match map[string]any, value string) map[string]any {
		m := map[string]any{"operation": operation, "value": value}
		if match != nil {
			m["match"] = match
		}
		return map[string]any{"modifications": []any{map[string]any{sort: m}}}
	}
	outbound := map[string]any{"origin": "outbound"}
	errors := func() string { return strings.Join(w.overview("web-1").Errors, "\n") }

	// pages is a listener that answers itself, and leads to backend.
	pages := func(greeting string) string {
		return fmt.Sprintf(`{"@type":"type.googleapis.com/envoy.config.listener.v3.Listener","name":"pages",
 "address":{"socket_address":{"address":"127.0.0.1","port_value":%d}},"filter_chains":[{"filters":[{"name":"http","typed_config":{
 "@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager","stat_prefix":"pages",
 "route_config":{"name":"pages","virtual_hosts":[{"name":"all","domains":["*"],"routes":[
  {"match":{"path":"/greeting"},"direct_response":{"status":200,"body":{"inline_string":%q}}},
  {"match":{"prefix":"/far"},"route":{"cluster":"far"}},{"match":{"prefix":"/"},"route":{"cluster":"backend"}}]}]},
 "http_filters":[{"name":"router","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}`, door, greeting)
	}
	raw := func(resources ...string) map[string]any {
		var all []any
		for _, r := range resources {
			all = append(all, map[string]any{"name": "raw", "version": "v1", "resource": r})
		}
		return map[string]any{"resources": all}
	}
	greets := func(greeting string) func() bool {
		return func() bool {
			r, err := get(fmt.Sprintf("http://127.0.0.1:%d/greeting", door))
			return err == nil && r.Body == greeting
		}
	}

	It("adds listeners and clusters, and takes changes one after another", func() {
		far := `{"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":"far","type":"STRICT_DNS","load_assignment":{"cluster_name":"far",
 "endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"socket_address":{"address":"192.0.2.77","port_value":80}}}}]}]}}`
		since := time.Now()
		template(raw(pages("hello"), far))
		measured("a new listener answers after", since, greets("hello"))
		Expect(called(fmt.Sprintf("http://127.0.0.1:%d/", door))).To(Equal(200), "it leads to the service")
		clusters, err := web.Admin("/clusters")
		Expect(err).NotTo(HaveOccurred())
		Expect(clusters).To(ContainSubstring("far::192.0.2.77:80"))
		for i := range 10 { // within milliseconds
			template(raw(pages(fmt.Sprint("hello ", i)), far))
		}
		measured("the last of ten changes is seen after", time.Now(), greets("hello 9"))
		Expect(errors()).To(BeEmpty())
		template(map[string]any{})
		Eventually(func() int { return called(fmt.Sprintf("http://127.0.0.1:%d/", door)) }, patience, "10ms").Should(BeZero(), "what is no longer in the template is gone")
	})

	It("changes hosts and filters of outbounds", func() {
		header := func() string {
			r, err := get(web.to("backend"))
			if err != nil {
				return err.Error()
			}
			var got framework.Received
			if json.Unmarshal([]byte(r.Body), &got) != nil {
				return r.Body
			}
			return got.Headers.Get("X-Team")
		}
		since := time.Now()
		template(change("virtualHost", "patch", outbound, `request_headers_to_add: [{header: {key: x-team, value: web}}]`))
		measured("a header is added after", since, func() bool { return header() == "web" })

		post := func() int {
			r, err := http.Post(web.to("backend"), "text/plain", bytes.NewReader(make([]byte, 4096))) //nolint:noctx // a test
			if err != nil {
				return 0
			}
			_ = r.Body.Close()
			return r.StatusCode
		}
		Expect(post()).To(Equal(200))
		template(change("httpFilter", "addFirst", outbound, `{"name":"small","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer","max_request_bytes":1024}}`))
		Eventually(post, patience, "10ms").Should(Equal(413))
		Expect(header()).To(BeEmpty(), "the template before is gone")

		template(change("virtualHost", "remove", outbound, ""))
		answers(web.to("backend"), 404)
		template(change("cluster", "remove", map[string]any{"name": "backend"}, ""))
		answers(web.to("backend"), 503)
		template(map[string]any{})
		answers(web.to("backend"), 200)
	})

	It("leaves what keeps callers out, and says so", func() {
		template(map[string]any{"modifications": []any{
			map[string]any{"listener": map[string]any{"operation": "remove", "match": map[string]any{"origin": "inbound"}}},
			map[string]any{"networkFilter": map[string]any{"operation": "remove", "match": map[string]any{"origin": "inbound"}}},
		}})
		Eventually(errors, patience, "10ms").Should(And(ContainSubstring("the listener of an inbound is not removed"), ContainSubstring("nothing is forwarded")))
		_, err := get("http://" + web.inbound())
		Expect(err).To(HaveOccurred(), "it still wants a certificate")
		template(raw(strings.Replace(pages("x"), fmt.Sprintf(`"port_value":%d`, door), fmt.Sprintf(`"port_value":%d`, web.port), 1)))
		Eventually(errors, patience, "10ms").Should(ContainSubstring("it is not added: the mesh listens on"))
		Expect(called(web.to("backend"))).To(Equal(200))
	})

	It("keeps everything else of a proxy when Envoy refuses a listener", func() {
		template(raw(strings.Replace(pages("x"), `"address":"127.0.0.1"`, `"address":"192.0.2.1"`, 1))) // which this machine does not have
		rejected := func() string {
			var all []string
			for _, s := range w.overview("web-1").Insight.Subscriptions {
				for _, n := range s.Rejected {
					all = append(all, n.Error)
				}
			}
			return strings.Join(all, "\n")
		}
		Eventually(rejected, patience, "10ms").Should(ContainSubstring("pages"))
		w.route(map[string]any{"destination": tags{service: "backend", "version": "none"}})
		answers(web.to("backend"), 503)
		w.Delete(shop, "traffic-routes", "to-backend")
		answers(web.to("backend"), 200)
		template(map[string]any{})
	})

	It("without a profile a proxy has nothing of the mesh", func() {
		template(map[string]any{"imports": []any{"egress-proxy"}})
		Eventually(func() int { return called(web.to("backend")) }, patience, "10ms").Should(BeZero())
		w.Delete(shop, "proxytemplates", "web")
		answers(web.to("backend"), 200)
	})
})
