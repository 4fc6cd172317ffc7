package mesh_test

import (
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("circuit breaker", Ordered, core, func() {
	var (
		w            *world
		web, backend *member
		good, bad    *scripted
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop)
		backend = w.start("backend-1", tags{service: "backend"})
		good, bad = startScripted(), startScripted()
		pool := tags{service: "pool", protocol: "http"}
		web = w.start("web-1", tags{service: "web"}, "backend", "pool", "ledger")
		w.ready(web, backend, w.serving("pool-1", pool, good), w.serving("pool-2", pool, bad),
			w.join(w.around("ledger-1", nil, framework.StartEcho("ledger-1"), tags{service: "ledger", protocol: "tcp"})))
		answers(web.to("backend"), 200)
		answers(web.to("pool"), 200)
	})

	breaks := func(to string, conf map[string]any) {
		w.Put("circuit-breakers", policy("CircuitBreaker", to, tags{service: "web"}, tags{service: to}, conf))
		w.Converged()
	}

	It("requests beyond the limit are refused at once, and pass again when others have ended", func() {
		breaks("backend", map[string]any{"thresholds": map[string]any{"maxRequests": 2}})
		statuses := make(chan int, 2)
		for range 2 {
			go func() { statuses <- called(web.to("backend") + "/hold") }()
			Eventually(backend.work.Held, patience).Should(Receive())
		}
		r, err := get(web.to("backend"))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(503))
		Expect(r.Header.Get("X-Envoy-Overloaded")).To(Equal("true"))
		close(backend.work.Release)
		Eventually(statuses, patience).Should(Receive(Equal(200)))
		Eventually(statuses, patience).Should(Receive(Equal(200)))
		Expect(called(web.to("backend"))).To(Equal(200))
	})

	It("connections beyond the limit are closed", func() {
		breaks("ledger", map[string]any{"thresholds": map[string]any{"maxConnections": 1}})
		first, lines := dialEcho(web.port2("ledger"))
		Expect(first.say(lines, "one")).To(Equal("ledger-1 one"))
		second, more := dialEcho(web.port2("ledger"))
		Expect(second.say(more, "two")).To(BeEmpty())
		Expect(first.say(lines, "one")).To(Equal("ledger-1 one"))
		Expect(first.Close()).To(Succeed())
		Eventually(func() string {
			third, more := dialEcho(web.port2("ledger"))
			defer func() { _ = third.Close() }()
			return third.say(more, "three")
		}, patience, "20ms").Should(Equal("ledger-1 three"))
	})

	// ejections are how often each detector has left out an endpoint of pool.
	ejections := func() map[string]int {
		of := map[string]int{}
		for name, n := range web.Stats() {
			if detector, is := strings.CutPrefix(name, "cluster.pool.outlier_detection.ejections_enforced_"); is && detector != "total" {
				of[detector] = n
			}
		}
		return of
	}
	// grown are those that have left one out since.
	grown := func(before, after map[string]int) (out []string) {
		for name, n := range after {
			if n > before[name] {
				out = append(out, name)
			}
		}
		return out
	}

	// The endpoint that fails is found by its answers, gets nothing for a while, and comes back.
	for _, detector := range []struct {
		name    string
		conf    map[string]any
		answer  answer
		counter string
	}{
		{"totalErrors", map[string]any{"totalErrors": map[string]any{"consecutive": 3}}, 500, "consecutive_5xx"},
		{"gatewayErrors", map[string]any{"gatewayErrors": map[string]any{"consecutive": 3}}, 503, "consecutive_gateway_failure"},
		{"failure", map[string]any{"failure": map[string]any{"requestVolume": 5, "minimumHosts": 2, "threshold": 50}}, 500, "failure_percentage"},
		{"standardDeviation", map[string]any{"standardDeviation": map[string]any{"requestVolume": 5, "minimumHosts": 2, "factor": 0.5}}, 500, "success_rate"},
	} {
		It("an endpoint is left out and returns: "+detector.name, func() {
			bad.always(http.StatusOK)
			breaks("pool", map[string]any{"interval": "500ms", "baseEjectionTime": "1s", "detectors": detector.conf})
			before := ejections()
			bad.always(detector.answer)
			out := func() int { return web.Stat("cluster.pool.outlier_detection.ejections_active") }
			failed := 0
			Eventually(func() int {
				for range 10 {
					if called(web.to("pool")) != 200 {
						failed++
					}
				}
				return out()
			}, patience, "1ms").Should(Equal(1))
			Expect(failed).To(BeNumerically(">", 2), "it was found by its answers")
			Expect(grown(before, ejections())).To(Equal([]string{detector.counter}), "only this detector was told to look")
			AddReportEntry(detector.name+": failed before it was left out", failed)
			bad.always(http.StatusOK)
			good.always(http.StatusOK)
			since := time.Now()
			Eventually(func() int {
				Expect(called(web.to("pool"))).To(Equal(200))
				return len(bad.times())
			}, patience, "5ms").Should(BeNumerically(">", 0), "it gets requests again")
			AddReportEntry(detector.name+": returned after", time.Since(since).Round(time.Millisecond).String())
			Expect(out()).To(BeZero())
		})
	}

	It("an endpoint is left out that cannot be reached, by errors of its caller's proxy", func() {
		w.Put("dataplanes", w.around("pool-3", nil, 1, tags{service: "pool", protocol: "http"}).doc)
		before := ejections()
		breaks("pool", map[string]any{"interval": "500ms", "baseEjectionTime": "1h", "maxEjectionPercent": 50, "splitExternalAndLocalErrors": true,
			"detectors": map[string]any{"localErrors": map[string]any{"consecutive": 2}}})
		Eventually(func() int {
			called(web.to("pool"))
			return web.Stat("cluster.pool.outlier_detection.ejections_active")
		}, patience, "1ms").Should(Equal(1))
		Expect(grown(before, ejections())).To(Equal([]string{"consecutive_local_origin_failure"}))
		for range 20 {
			Expect(called(web.to("pool"))).To(Equal(200))
		}
	})
})
