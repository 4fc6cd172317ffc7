package mesh_test

import (
	"bufio"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// coarse is how much earlier than configured a timeout may seem to end. Envoy counts from when its
// event loop last looked at the clock, in whole milliseconds, and the test from a moment later. On a
// busy machine much may happen in between, such as a change of the configuration, or nothing because
// another process runs.
const coarse = 150 * time.Millisecond

// speaks says something again and again for as long as an interval lasts and nothing goes wrong.
func speaks(say func() error, interval time.Duration) (err error) {
	for began := time.Now(); err == nil && time.Since(began) < interval; {
		err = say()
	}
	return err
}

// lasts uses a connection for twice as long as it may be idle, which must not end it. Where the machine was so busy that
// it may have been idle for so long, another one is opened.
func lasts(idle time.Duration, open func() (say func() error)) {
	GinkgoHelper()
	for range 10 {
		said, gap := time.Now(), time.Duration(0)
		say := open()
		err := speaks(func() error {
			last := said
			said = time.Now()
			err := say()
			gap = time.Since(last)
			return err
		}, 2*idle)
		if err == nil {
			return
		}
		Expect(gap).To(BeNumerically(">=", idle-coarse), "it was used, and has ended: %v", err)
	}
	Fail("the machine never uses a connection for long enough")
}

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
		web = w.start("web-1", tags{service: "web"}, "backend", "ledger", "talk", "deaf", "deaf-ledger")
		w.ready(web, w.serving("backend-1", tags{service: "backend", protocol: "http"}, work),
			w.join(w.around("ledger-1", nil, framework.StartEcho("ledger-1"), tags{service: "ledger", protocol: "tcp"})),
			w.join(w.around("talk-1", nil, startTalk(), tags{service: "talk", protocol: "grpc"})))
		for name, speaks := range map[string]string{"deaf": "http", "deaf-ledger": "tcp"} {
			m := w.around(name+"-1", nil, 1, tags{service: name, protocol: speaks})
			m.doc["networking"].(map[string]any)["inbound"].([]any)[0].(map[string]any)["port"] = startDeaf()
			w.Put("dataplanes", m.doc)
		}
		w.Converged()
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
		Expect(took).To(And(BeNumerically(">=", short-coarse), BeNumerically("<", patience)))
	}
	limit := func(one string) map[string]any {
		conf := map[string]any{"requestTimeout": "1h"}
		conf[one] = short.String()
		return map[string]any{"http": conf}
	}

	// All of them answer the same, so the counters of Envoy tell which it was.
	ended := map[string]string{
		"requestTimeout": "cluster.backend.upstream_rq_timeout", "streamIdleTimeout": "http.backend.downstream_rq_idle_timeout",
		"maxStreamDuration": "http.backend.downstream_rq_max_duration_reached",
	}
	for _, one := range []string{"requestTimeout", "streamIdleTimeout", "maxStreamDuration"} {
		It("HTTP: "+one, func() {
			work.always(never)
			before := web.Stats()
			ends(one, "backend", limit(one), func() { Expect(called(web.to("backend"))).To(Equal(504)) })
			after := web.Stats()
			for other, counter := range ended {
				grown := 0
				if other == one {
					grown = 1
				}
				Expect(after[counter]-before[counter]).To(Equal(grown), counter)
			}
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
			var conn echo
			lasts(short, func() (say func() error) {
				var lines *bufio.Reader
				conn, lines = dialEcho(web.port2("ledger"))
				return func() error {
					if answer := conn.say(lines, "used"); answer != "ledger-1 used" {
						return fmt.Errorf("the answer is %q", answer)
					}
					return nil
				}
			})
			Expect(over(conn)).To(BeEmpty())
		})
	})

	// The request would end by itself before the time that connecting has without a policy, and with
	// another status.
	It("an endpoint that answers no connection: HTTP", func() {
		ends("connectTimeout", "deaf", map[string]any{"connectTimeout": short.String(), "http": map[string]any{"requestTimeout": "3s"}}, func() {
			r, err := get(web.to("deaf"))
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(503))
		})
		Expect(web.Stat("cluster.deaf.upstream_cx_connect_timeout")).To(Equal(1))
	})

	It("an endpoint that answers no connection: TCP", func() {
		ends("connectTimeout", "deaf-ledger", map[string]any{"connectTimeout": short.String()}, func() {
			conn, lines := dialEcho(web.port2("deaf-ledger"))
			Expect(conn.say(lines, "anybody?")).To(BeEmpty())
		})
		Expect(web.Stat("cluster.deaf-ledger.upstream_cx_connect_timeout")).To(Equal(1))
	})

	// What HTTP would say counts for gRPC, too, but for what gRPC says itself. Answers have begun when
	// the time is up, so that the stream is reset, and no status tells why: the counters of Envoy do.
	grpcLimit := func(one string) map[string]any {
		return map[string]any{"http": map[string]any{"requestTimeout": "1h", one: "1h"}, "grpc": map[string]any{one: short.String()}}
	}
	It("gRPC: streamIdleTimeout ends a stream on which nothing is said, and none that is used", func() {
		const counter = "http.talk.downstream_rq_idle_timeout"
		before := 0
		ends("grpc streamIdleTimeout", "talk", grpcLimit("streamIdleTimeout"), func() {
			var with conversation
			lasts(short, func() (say func() error) {
				before = web.Stat(counter)
				with = talk(web.port2("talk"))
				return with.say
			})
			Expect(with.waits()).NotTo(Succeed())
		})
		Expect(web.Stat(counter)).To(Equal(before + 1))
	})

	It("gRPC: maxStreamDuration ends a stream that is used", func() {
		ends("grpc maxStreamDuration", "talk", grpcLimit("maxStreamDuration"), func() {
			Expect(speaks(talk(web.port2("talk")).say, patience)).NotTo(Succeed())
		})
		Expect(web.Stat("http.talk.downstream_rq_max_duration_reached")).To(Equal(1))
	})
})
