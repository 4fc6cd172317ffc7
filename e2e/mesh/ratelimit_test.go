package mesh_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The intervals of these limits are so long that none ends during a spec, but where a spec
// waits for that.
var _ = Describe("rate limit", Ordered, core, func() {
	var (
		w                         *world
		web, web2, other, backend *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop)
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web", "team": "a"}, "backend")
		web2 = w.start("web-2", tags{service: "web", "team": "a"}, "backend")
		other = w.start("other-1", tags{service: "other"}, "backend")
		w.ready(web, web2, other, backend)
		answers(web.to("backend"), 200)
		answers(web2.to("backend"), 200)
		answers(other.to("backend"), 200)
		// A first limit, which drains the connections without the filter.
		w.Put("rate-limits", policy("RateLimit", "everybody", tags{service: "*"}, tags{service: "backend"}, limit(100000, 429)))
		w.Converged()
		for _, m := range []*member{web, web2, other} {
			open := keepAlive(m.port2("backend"))
			Eventually(open.get, patience).Should(Equal(200))
		}
	})

	// statuses are those of so many requests.
	statuses := func(from *member, n int) (out []int) {
		for range n {
			out = append(out, called(from.to("backend")))
		}
		return out
	}

	It("callers of a source share its limit, whoever opens connections, and others have theirs", func() {
		w.Put("rate-limits", policy("RateLimit", "web", tags{service: "web"}, tags{service: "backend"}, limit(3, 423)))
		w.Converged()
		var got []int
		for range 3 { // two proxies, so two connections at least
			got = append(got, called(web.to("backend")), called(web2.to("backend")))
		}
		Expect(got).To(Equal([]int{200, 200, 200, 423, 423, 423}))
		Expect(statuses(other, 5)).To(Equal([]int{200, 200, 200, 200, 200}))
		r, err := get(web.to("backend"))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Header.Values("x-rate-limited")).To(Equal([]string{"100%"}))
	})

	It("a change fills the limit anew, on connections that are open", func() {
		open := keepAlive(web.port2("backend"))
		Expect(open.get()).To(Equal(423))
		w.Put("rate-limits", policy("RateLimit", "web", tags{service: "web"}, tags{service: "backend"}, limit(2, 429)))
		w.Converged()
		Expect([]int{open.get(), open.get(), open.get()}).To(Equal([]int{200, 200, 429}))
		Expect(open.reconnected()).To(BeFalse())
	})

	It("the most specific source counts, in whatever policy", func() {
		w.Put("rate-limits", policy("RateLimit", "team", tags{service: "web", "team": "a"}, tags{service: "*"}, limit(1, 423)))
		w.Converged()
		Expect(statuses(web, 2)).To(Equal([]int{200, 423}))
		Expect(statuses(other, 3)).To(Equal([]int{200, 200, 200}))
	})

	It("tokens come back, and each caller empties a bucket of its own", func() {
		w.Put("rate-limits", policy("RateLimit", "team", tags{service: "web", "team": "a"}, tags{service: "backend"}, limitIn("2s", 1, 423)))
		w.Put("rate-limits", policy("RateLimit", "other", tags{service: "other"}, tags{service: "backend"}, limitIn("2s", 1, 429)))
		w.Converged()
		answers(web.to("backend"), 423)
		Expect(called(other.to("backend"))).To(Equal(200), "the bucket of another caller is full")
		answers(other.to("backend"), 429)
		answers(web.to("backend"), 200)
		answers(other.to("backend"), 200)
		// With an interval that does not end, what is gone is gone.
		w.Put("rate-limits", policy("RateLimit", "team", tags{service: "web", "team": "a"}, tags{service: "backend"}, limit(1, 423)))
		w.Delete(shop, "rate-limits", "other")
		w.Converged()
		answers(web.to("backend"), 423)
	})

	It("a limit for everybody holds for callers without one of their own; without limits nobody is refused", func() {
		w.Put("rate-limits", policy("RateLimit", "everybody", tags{service: "*"}, tags{service: "backend"}, limit(2, 503)))
		w.Converged()
		Expect(statuses(other, 3)).To(Equal([]int{200, 200, 503}))
		for _, name := range []string{"everybody", "web", "team"} {
			w.Delete(shop, "rate-limits", name)
		}
		w.Converged()
		answers(web.to("backend"), 200)
		Expect(statuses(other, 5)).To(Equal([]int{200, 200, 200, 200, 200}))
	})
})

// limit lets so many requests pass in an hour.
func limit(requests, status int) map[string]any { return limitIn("1h", requests, status) }

// limitIn lets so many requests pass in an interval.
func limitIn(interval string, requests, status int) map[string]any {
	return map[string]any{"http": map[string]any{"requests": requests, "interval": interval, "onRateLimit": map[string]any{
		"status": status, "headers": []any{map[string]any{"key": "x-rate-limited", "value": "100%"}},
	}}}
}
