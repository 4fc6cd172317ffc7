package traffic_test

import (
	"fmt"
	"net/http"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("routes under load", func() {
	It("are renamed, put into other orders, moved, inserted and removed without a failed request", func() {
		stable, other := startBackend("stable"), startBackend("other")
		expose("churn", document{"url": "http://" + stable.address()})
		expose("besides", document{"url": "http://" + other.address()})
		churned := id(api.Must(201, http.MethodPost, "/services/churn/routes", document{"name": "first", "paths": []string{"/churn/a"}}))
		moved := id(api.Must(201, http.MethodPost, "/services/churn/routes", document{"name": "moved", "paths": []string{"/moved"}}))
		api.Converged()
		loads := []*framework.Load{
			framework.StartChecked(plain("/churn/a/b"), http.Header{}, 1, 0, answeredBy("stable")),
			framework.StartChecked(plain("/churn/c"), http.Header{}, 1, 5, answeredBy("stable")),
			framework.StartChecked(plain("/moved"), http.Header{}, 1, 0, answeredBy("stable", "other")),
		}
		paths := []string{"/churn/a", "/churn/a/b", "/churn", "/churn/c", `~/churn/\w`}
		for n := range 20 {
			order := append(append([]string{}, paths[n%5:]...), paths[:n%5]...)
			api.Must(200, http.MethodPatch, "/routes/"+churned, document{
				"name": fmt.Sprint("route-", n), "paths": order[:1+n%5], "regex_priority": n % 3, "strip_path": n%2 == 0,
			})
			service, backend := [2]string{"besides", "churn"}[n%2], [2]string{"other", "stable"}[n%2]
			api.Must(200, http.MethodPatch, "/routes/"+moved, document{"service": document{"name": service}})
			// Before and after it, by age and by name.
			api.Must(201, http.MethodPost, "/services/churn/routes", document{"name": fmt.Sprint("more-", n), "paths": []string{"/churn/a/b"}, "methods": []string{"GET"}})
			if n > 2 {
				api.Must(204, http.MethodDelete, fmt.Sprint("/routes/more-", n-3), nil)
			}
			api.Must(200, http.MethodPatch, "/services/churn", document{"name": "churn", "retries": n % 4, "path": []string{"/x", "/y"}[n%2]})
			if n%3 == 0 {
				api.Converged()
				Expect(ask("/moved", nil).Header.Get(backendHeader)).To(Equal(backend))
			}
			for _, l := range loads {
				l.Served(20)
			}
		}
		api.Converged()
		for _, l := range loads {
			total, failures := l.Stop()
			Expect(failures).To(BeEmpty(), "of %d requests", total)
			AddReportEntry("requests, none failed", total)
		}
		Expect(ask("/churn/a/b", nil).Header.Get(backendHeader)).To(Equal("stable"))
	})
})

// answeredBy complains of answers of other backends.
func answeredBy(names ...string) func(*framework.Response) string {
	return func(r *framework.Response) string {
		if name := r.Header.Get(backendHeader); !slices.Contains(names, name) {
			return "answered by " + name
		}
		return ""
	}
}

var _ = Describe("an upstream that always answers 503", func() {
	// What a client may not ask for: more attempts, of more kinds, in less time.
	forged := http.Header{
		"X-Envoy-Retry-On": {"5xx,gateway-error,retriable-status-codes,reset"}, "X-Envoy-Retry-Grpc-On": {"cancelled,unavailable"},
		"X-Envoy-Max-Retries": {"9"}, "X-Envoy-Retriable-Status-Codes": {"503"}, "X-Envoy-Retriable-Header-Names": {"x-backend"},
		"X-Envoy-Upstream-Rq-Per-Try-Timeout-Ms": {"1"}, "X-Envoy-Hedge-On-Per-Try-Timeout": {"true"},
	}
	for what, header := range map[string]http.Header{"asked plainly": nil, "asked by a client that wants retries": forged} {
		It("is not asked again, "+what, func() {
			broken := startBackend("broken")
			broken.status.Store(http.StatusServiceUnavailable)
			name := fmt.Sprint("broken-", len(header))
			pool(name, nil, broken.target(100))
			api.Must(200, http.MethodPatch, "/services/"+name, document{"retries": 5})
			api.Converged()
			const n = 100
			for range n {
				Expect(ask("/"+name, header.Clone()).Status).To(Equal(503))
			}
			AddReportEntry(fmt.Sprintf("requests to the upstream for %d", n), broken.served.Load())
			Expect(broken.served.Load()).To(BeNumerically(">=", n), "every answer is the upstream's")
			Expect(broken.served.Load()).To(BeNumerically("<=", n*12/10))
		})
	}
})
