package traffic_test

import (
	"net/http"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// probing probes every 0.2 s; this many failures and successes count.
func probing(failures, successes int) document {
	return document{
		"http_path": "/health", "timeout": 1,
		"healthy":   document{"interval": 0.2, "successes": successes},
		"unhealthy": document{"interval": 0.2, "http_failures": failures},
	}
}

var _ = Describe("health checks", func() {
	// settles waits until requests are spread over exactly these.
	settles := func(path string, names ...string) {
		EventuallyWithOffset(1, func() []string {
			var got []string
			for name := range spread(path, 12, nil) {
				got = append(got, name)
			}
			return got
		}, patience).Should(ConsistOf(names))
	}

	for _, algorithm := range []string{"round-robin", "least-connections", "consistent-hashing"} {
		It("take out a target whose probes fail, and bring it back: "+algorithm, func() {
			name := "active-" + algorithm
			a, b := startBackend("a"), startBackend("b")
			pool(name, document{"algorithm": algorithm, "healthchecks": document{"active": probing(2, 1)}}, a.target(100), b.target(100))
			settles("/"+name, "a", "b")
			a.health.Store(500)
			settles("/"+name, "b")

			By("with no healthy target there is no answer, and no panic")
			b.health.Store(503)
			settles("/"+name, "503")
			b.health.Store(204) // in no list
			settles("/"+name, "b")
			a.health.Store(200)
			settles("/"+name, "a", "b")

			By("a target that is gone")
			a.Close()
			settles("/"+name, "b")
		})
	}

	It("serve nothing below the threshold", func() {
		a, b := startBackend("a"), startBackend("b")
		pool("threshold", document{"healthchecks": document{"active": probing(1, 1), "threshold": 60}}, a.target(100), b.target(100))
		settles("/threshold", "a", "b")
		a.health.Store(500)
		settles("/threshold", "503")
		a.health.Store(200)
		settles("/threshold", "a", "b")
	})

	It("take out a target that answers badly, until a probe succeeds", func() {
		a, b := startBackend("a"), startBackend("b")
		pool("passive", document{"healthchecks": document{
			"active":  probing(0, 1),
			"passive": document{"unhealthy": document{"http_failures": 3, "http_statuses": []int{429}}},
		}}, a.target(100), b.target(100))
		settles("/passive", "a", "b")
		a.health.Store(500) // which takes nobody out by itself
		a.status.Store(500)
		Expect(spread("/passive", 40, nil)["500"]).To(BeNumerically("~", 20, 3), "no status that counts")
		a.status.Store(429)
		// Envoy's main thread takes it out, a moment after the third of them. No other is needed for that.
		for asked, refused := 0, 0; refused < 3; asked++ {
			Expect(asked).To(BeNumerically("<", 20), "it is left out too early")
			refused += spread("/passive", 1, nil)["429"]
		}
		Eventually(func() (string, error) { return framework.EnvoyAdmin(c.StateDir, "/clusters") }, patience).
			Should(MatchRegexp(regexp.QuoteMeta(a.address()) + `::health_flags::\S*failed_outlier_check`))
		Expect(spread("/passive", 20, nil)).To(Equal(map[string]int{"b": 20}))
		a.status.Store(200)
		Expect(spread("/passive", 10, nil)).To(Equal(map[string]int{"b": 10}))
		a.health.Store(200)
		settles("/passive", "a", "b")
	})

	It("send nothing to a target that cannot be connected to", func() {
		a, b := startBackend("a"), startBackend("b")
		pool("connect", document{"healthchecks": document{
			"passive": document{"unhealthy": document{"tcp_failures": 1}},
		}}, a.target(100), b.target(100))
		settles("/connect", "a", "b")
		a.Close()
		Expect(spread("/connect", 20, nil)).To(Equal(map[string]int{"b": 20}), "retries hide the failures")
	})

	It("refuse what cannot be had", func() {
		api.Must(400, http.MethodPost, "/upstreams", document{"name": "refused", "healthchecks": document{"active": document{"timeout": 0}}})
	})

	It("take what has no effect here, because tools send it", func() {
		api.Must(201, http.MethodPost, "/upstreams", document{"name": "taken", "healthchecks": document{
			"active": document{"concurrency": 5}, "passive": document{"healthy": document{"http_statuses": []int{200}}},
		}})
	})
})
