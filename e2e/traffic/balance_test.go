package traffic_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("an upstream", func() {
	It("spreads requests by weight, and none to a drained target", func() {
		one, two, drained := startBackend("one"), startBackend("two"), startBackend("drained")
		pool("weights", nil, one.target(100), two.target(300), drained.target(0))
		got := spread("/weights", 400, nil)
		Expect(got).To(HaveLen(2), "%v", got)
		Expect(got["one"]).To(BeNumerically("~", 100, 15))
		Expect(got["two"]).To(BeNumerically("~", 300, 15))

		By("a weight of 0, by the address of the target")
		api.Must(200, http.MethodPatch, "/upstreams/weights/targets/"+two.address(), document{"weight": 0})
		api.Converged()
		Expect(spread("/weights", 20, nil)).To(Equal(map[string]int{"one": 20}))

		By("no target at all")
		api.Must(204, http.MethodDelete, "/upstreams/weights/targets/"+one.address(), nil)
		api.Converged()
		Expect(spread("/weights", 3, nil)).To(Equal(map[string]int{"503": 3}))
	})

	It("sends requests to the target with the fewest", func() {
		slow, fast := startBackend("slow"), startBackend("fast")
		pool("least", document{"algorithm": "least-connections"}, slow.target(100), fast.target(100))
		var held sync.WaitGroup
		// Each of the two gets one of these. The second comes when the first has arrived:
		// Envoy counts a request once it has a connection, so two at the same time may
		// go to the same target.
		for n := range 2 {
			held.Go(func() {
				defer GinkgoRecover()
				Expect(ask("/least/hold", nil).Status).To(Equal(200))
			})
			Eventually(func() int { return len(slow.held) + len(fast.held) }, patience).Should(Equal(n + 1))
		}
		Eventually(slow.held, patience).Should(Receive())
		Eventually(fast.held, patience).Should(Receive())
		close(fast.release)
		Eventually(func() map[string]int { return spread("/least", 10, nil) }, patience).Should(Equal(map[string]int{"fast": 10}))
		close(slow.release)
		held.Wait()
	})

	It("keeps what hashes alike together", func() {
		var targets []document
		for i := range 3 {
			targets = append(targets, startBackend(fmt.Sprint("ring", i)).target(100))
		}
		pool("ring", document{
			"algorithm": "consistent-hashing", "hash_on": "header", "hash_on_header": "x-user",
			"hash_fallback": "query_arg", "hash_fallback_query_arg": "user",
		}, targets...)
		for what, request := range map[string]func(int) map[string]int{
			"header":   func(i int) map[string]int { return spread("/ring/x", 4, http.Header{"X-User": {fmt.Sprint(i)}}) },
			"fallback": func(i int) map[string]int { return spread(fmt.Sprintf("/ring/x?user=%d", i), 4, nil) },
		} {
			used := map[string]bool{}
			// The ports of the targets are hashed, too, and others in each run. That one of three is met by
			// none of 60 users happens once in a hundred million runs.
			for i := range 60 {
				got := request(i)
				Expect(got).To(HaveLen(1), "%s %d: %v", what, i, got)
				for name := range got {
					used[name] = true
				}
			}
			Expect(used).To(HaveLen(3), what)
		}

		By("a cookie that the gateway sets")
		api.Must(200, http.MethodPatch, "/upstreams/ring", document{"hash_on": "cookie", "hash_on_cookie": "place", "hash_fallback": "none"})
		api.Converged()
		first := ask("/ring", nil)
		Expect(first.Header.Get("Set-Cookie")).To(HavePrefix("place="))
		cookie := http.Header{"Cookie": {first.Header.Get("Set-Cookie")}}
		Expect(spread("/ring", 10, cookie)).To(Equal(map[string]int{first.Header.Get(backendHeader): 10}))

		By("the path without its query")
		api.Must(200, http.MethodPatch, "/upstreams/ring", document{"hash_on": "path"})
		api.Converged()
		used := map[string]bool{}
		for i := range 20 {
			got := spread(fmt.Sprintf("/ring/%d", i), 3, nil)
			for name := range spread(fmt.Sprintf("/ring/%d?q=%d", i, i), 3, nil) {
				got[name]++
				used[name] = true
			}
			Expect(got).To(HaveLen(1), "path %d", i)
		}
		Expect(len(used)).To(BeNumerically(">", 1))
	})

	It("changes its targets without a failed request", func() {
		steady, other := startBackend("steady"), startBackend("other")
		pool("change", nil, steady.target(100))
		load := framework.StartTraffic(plain("/change"), http.Header{}, 4)
		load.Served(50)
		for range 3 {
			api.Must(201, http.MethodPost, "/upstreams/change/targets", other.target(50))
			api.Converged()
			Eventually(func() int { return spread("/change", 10, nil)["other"] }, patience).Should(BeNumerically(">", 0))
			api.Must(200, http.MethodPatch, "/upstreams/change/targets/"+other.address(), document{"weight": 500})
			load.Served(50)
			api.Must(204, http.MethodDelete, "/upstreams/change/targets/"+other.address(), nil)
			api.Converged()
			Expect(spread("/change", 10, nil)).To(Equal(map[string]int{"steady": 10}))
			load.Served(50)
		}
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d", total)
	})

	It("takes the place of DNS, and gives it back", func() {
		b := startBackend("named")
		expose("localhosts", document{"host": "localhost.meshgate.test", "retries": 0})
		api.Converged()
		Expect(ask("/localhosts", nil).Status).To(Equal(503), "nobody has that name")
		api.Must(201, http.MethodPost, "/upstreams", document{"name": "LocalHost.meshgate.test", "host_header": "shown.test:81"})
		// A name among the targets is resolved.
		_, port, err := net.SplitHostPort(b.address())
		Expect(err).NotTo(HaveOccurred())
		api.Must(201, http.MethodPost, "/upstreams/localhost.meshgate.test/targets", document{"target": "localhost:" + port})
		api.Converged()
		r := ask("/localhosts", nil)
		Expect(r.Status).To(Equal(200), r.Body)
		Expect(decode(r).Host).To(Equal("shown.test:81"))
		api.Must(204, http.MethodDelete, "/upstreams/localhost.meshgate.test", nil)
		api.Converged()
		Expect(ask("/localhosts", nil).Status).To(Equal(503))
	})
})

var _ = Describe("a service", func() {
	It("is not matched while it is disabled", func() {
		b := startBackend("switched")
		expose("switched", document{"url": b.URL})
		api.Converged()
		for range 2 {
			Expect(spread("/switched", 3, nil)).To(Equal(map[string]int{"switched": 3}))
			api.Must(200, http.MethodPatch, "/services/switched", document{"enabled": false})
			api.Converged()
			Expect(spread("/switched", 3, nil)).To(Equal(map[string]int{"404": 3}))
			api.Must(200, http.MethodPatch, "/services/switched", document{"enabled": true})
			api.Converged()
		}
	})
})
