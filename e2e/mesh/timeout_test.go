package mesh_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A timeout is never shorter than configured. How much longer it takes is up to the machine, so it
// is reported, and only has to end before the test gives up.
var _ = Describe("timeout", Ordered, core, func() {
	var (
		w    *world
		web  *member
		work *scripted
	)
	const short = 300 * time.Millisecond

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop)
		work = startScripted()
		web = w.start("web-1", tags{service: "web"}, "backend", "ledger")
		w.ready(web, w.serving("backend-1", tags{service: "backend", protocol: "http"}, work),
			w.join(w.around("ledger-1", nil, framework.StartEcho("ledger-1"), tags{service: "ledger", protocol: "tcp"})))
		answers(web.to("backend"), 200)
	})

	// ends puts timeouts and returns how long something takes that ends by them.
	ends := func(what, to string, conf map[string]any, something func()) {
		GinkgoHelper()
		w.Put("timeouts", policy("Timeout", to, tags{service: "web"}, tags{service: to}, conf))
		w.Converged()
		since := time.Now()
		something()
		took := time.Since(since)
		AddReportEntry(what+" of 300 ms ended after", took.Round(time.Millisecond).String())
		Expect(took).To(And(BeNumerically(">=", short), BeNumerically("<", patience)))
	}
	limit := func(one string) map[string]any {
		conf := map[string]any{"requestTimeout": "1h"}
		conf[one] = short.String()
		return map[string]any{"http": conf}
	}

	for _, one := range []string{"requestTimeout", "streamIdleTimeout", "maxStreamDuration"} {
		It("HTTP: "+one, func() {
			work.always(never)
			ends(one, "backend", limit(one), func() { Expect(called(web.to("backend"))).To(Equal(504)) })
			work.always(200)
			Expect(called(web.to("backend"))).To(Equal(200))
		})
	}

	It("HTTP: an idle connection to an endpoint is closed", func() {
		ends("idleTimeout", "backend", limit("idleTimeout"), func() {
			Expect(called(web.to("backend"))).To(Equal(200))
			Eventually(func() int { return web.Stat("cluster.backend.upstream_cx_idle_timeout") }, patience, "20ms").Should(BeNumerically(">", 0))
		})
	})

	It("TCP: an idle connection ends, and one that is used does not", func() {
		ends("tcp idleTimeout", "ledger", map[string]any{"tcp": map[string]any{"idleTimeout": short.String()}}, func() {
			conn, lines := dialEcho(web.port2("ledger"))
			for began := time.Now(); time.Since(began) < 2*short; {
				Expect(conn.say(lines, "used")).To(Equal("ledger-1 used"))
			}
			Expect(over(conn)).To(BeEmpty())
		})
	})
})
