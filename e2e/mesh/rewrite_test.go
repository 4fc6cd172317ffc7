package mesh_test

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// What a TrafficRoute matches and changes, seen by the workload that gets the request.
var _ = Describe("rules of a traffic route", Ordered, core, func() {
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

	// rule sends what matches to v2, changed, and everything else to v1.
	rule := func(match, modify map[string]any) {
		one := map[string]any{"match": match, "destination": tags{service: "backend", "version": "v2"}}
		if modify != nil {
			one["modify"] = modify
		}
		w.route(map[string]any{"http": []any{one}, "destination": tags{service: "backend", "version": "v1"}})
		w.Converged()
	}
	ask := func(method, path string, header http.Header) *framework.Response {
		GinkgoHelper()
		r, err := framework.Do(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, method, web.to("backend")+path, header, "")
		Expect(err).NotTo(HaveOccurred())
		return r
	}
	served := func(method, path string, header http.Header) string {
		GinkgoHelper()
		return ask(method, path, header).Received().Name
	}
	text := func(kind, value string) map[string]any { return map[string]any{kind: value} }
	const second = "backend-2"

	It("matches paths by prefix, exactly and by expression", func() {
		for _, c := range []struct {
			kind, value string
			in, out     []string
		}{
			{"prefix", "/a", []string{"/a", "/a/b", "/ab?x=1"}, []string{"/", "/b/a"}},
			{"exact", "/a/b", []string{"/a/b", "/a/b?x=1"}, []string{"/a", "/a/b/", "/a/bc"}},
			{"regex", "/a/[0-9]+", []string{"/a/7", "/a/12?x=1"}, []string{"/a/", "/a/7/x", "/x/a/7"}},
		} {
			rule(map[string]any{"path": text(c.kind, c.value)}, nil)
			for _, path := range c.in {
				Expect(served("GET", path, nil)).To(Equal(second), "%s %s: %s", c.kind, c.value, path)
			}
			for _, path := range c.out {
				Expect(served("GET", path, nil)).NotTo(Equal(second), "%s %s: %s", c.kind, c.value, path)
			}
		}
	})

	It("matches methods and headers, all that are named", func() {
		rule(map[string]any{"method": text("exact", "POST"), "headers": map[string]any{"x-tier": text("prefix", "gold"), "x-id": text("regex", "[a-z]+")}}, nil)
		gold := http.Header{"X-Tier": {"golden"}, "X-Id": {"abc"}}
		Expect(served("POST", "/", gold)).To(Equal(second))
		Expect(served("GET", "/", gold)).NotTo(Equal(second))
		Expect(served("POST", "/", http.Header{"X-Tier": {"silver"}, "X-Id": {"abc"}})).NotTo(Equal(second))
		Expect(served("POST", "/", http.Header{"X-Tier": {"gold"}, "X-Id": {"ab1"}})).NotTo(Equal(second))
		Expect(served("POST", "/", http.Header{"X-Tier": {"gold"}})).NotTo(Equal(second))
	})

	It("rewrites paths and hosts", func() {
		everything := map[string]any{"path": text("prefix", "/shop")}
		rule(everything, map[string]any{"path": map[string]any{"rewritePrefix": "/v2"}, "host": map[string]any{"value": "inner.example"}})
		got := ask("GET", "/shop/cart?x=1", nil).Received()
		Expect(got.Path).To(Equal("/v2/cart?x=1"))
		Expect(got.Host).To(Equal("inner.example"))
		rule(everything, map[string]any{
			"path": map[string]any{"regex": map[string]any{"pattern": "/shop/([^/]+)/(.*)", "substitution": `/\2/of/\1`}},
			"host": map[string]any{"fromPath": map[string]any{"pattern": "/shop/([^/]+)/.*", "substitution": `\1.example`}},
		})
		got = ask("GET", "/shop/anna/cart?x=1", nil).Received()
		Expect(got.Path).To(Equal("/cart/of/anna?x=1"))
		Expect(got.Host).To(Equal("anna.example"))
	})

	It("adds, replaces and removes headers of requests and answers", func() {
		add := func(name, value string, more bool) any {
			return map[string]any{"name": name, "value": value, "append": more}
		}
		rule(map[string]any{"path": text("prefix", "/")}, map[string]any{
			"requestHeaders":  map[string]any{"add": []any{add("x-one", "new", false), add("x-two", "new", true)}, "remove": []any{map[string]any{"name": "x-secret"}}},
			"responseHeaders": map[string]any{"add": []any{add("x-answer", "new", false)}, "remove": []any{map[string]any{"name": "content-type"}}},
		})
		r := ask("GET", "/", http.Header{"X-One": {"old"}, "X-Two": {"old"}, "X-Secret": {"s"}, "X-Other": {"o"}})
		got := r.Received().Headers
		Expect(got.Values("X-One")).To(Equal([]string{"new"}))
		Expect(got.Values("X-Two")).To(Equal([]string{"old", "new"}))
		Expect(got).NotTo(HaveKey("X-Secret"))
		Expect(got.Get("X-Other")).To(Equal("o"))
		Expect(r.Header.Get("X-Answer")).To(Equal("new"))
		Expect(r.Header).NotTo(HaveKey("Content-Type"))
	})
})
