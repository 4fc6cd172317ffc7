package mesh_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("the overview", Ordered, func() {
	var (
		w            *world
		web, backend *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, backend)
		answers(web.to("backend"), 200)
	})

	It("counts what a proxy was sent and has acknowledged", func() {
		o := w.overview("web-1")
		Expect(o.online()).To(BeTrue())
		Expect(o.Insight.Subscriptions).To(HaveLen(1))
		before := o.Insight.Subscriptions[0]
		for _, kind := range []string{"total", "cds", "eds", "lds", "rds"} {
			Expect(counter(before.Status, kind, "responsesSent")).To(BeNumerically(">", 0), kind)
		}
		w.route(map[string]any{"destination": tags{service: "backend"}, "loadBalancer": map[string]any{"random": map[string]any{}}})
		w.Converged()
		var after = before
		Eventually(func() int {
			after = w.overview("web-1").Insight.Subscriptions[0]
			return counter(after.Status, "total", "responsesAcknowledged")
		}, patience, 20*time.Millisecond).Should(BeNumerically(">", counter(before.Status, "total", "responsesAcknowledged")))
		Expect(counter(after.Status, "cds", "responsesSent")).To(BeNumerically(">", counter(before.Status, "cds", "responsesSent")))
		Expect(counter(after.Status, "total", "responsesRejected")).To(BeZero())
	})

	It("tells versions and the certificate", func() {
		o := w.overview("web-1")
		versions := o.Insight.Subscriptions[0].Version
		Expect(versions.Proxy.Version).To(MatchRegexp(`^1\.\d+\.\d+$`))
		info, err := web.Admin("/server_info")
		Expect(err).NotTo(HaveOccurred())
		Expect(info).To(ContainSubstring("/" + versions.Proxy.Version + "/"))
		AddReportEntry("Envoy", versions.Proxy.Version)
		Expect(versions.Agent.Version).NotTo(BeEmpty())
		Expect(o.Insight.MTLS).NotTo(BeNil())
		Expect(o.Insight.MTLS.Issued).To(Equal("ca-1"))
		Expect(o.Insight.MTLS.Supported).To(Equal([]string{"ca-1"}))
		Expect(o.Insight.MTLS.Regenerations).To(BeNumerically(">=", 1))
		Expect(time.Until(o.Insight.MTLS.Expiration)).To(BeNumerically("~", 24*time.Hour, time.Hour))
		Expect(time.Since(o.Insight.MTLS.Last)).To(BeNumerically("<", 5*time.Minute))
	})

	It("says when a proxy has gone and come, and keeps two subscriptions", func() {
		for range 3 {
			web.Stop()
			Eventually(func() bool { return w.overview("web-1").online() }, patience, 20*time.Millisecond).Should(BeFalse())
			web.Start()
			Eventually(func() bool { return w.overview("web-1").online() }, patience, 20*time.Millisecond).Should(BeTrue())
		}
		o := w.overview("web-1")
		Expect(o.Insight.Subscriptions).To(HaveLen(2))
		Expect(o.Insight.Subscriptions[0].Disconnect).NotTo(BeNil())
		Expect(o.Insight.Subscriptions[0].Instance).NotTo(BeEmpty())
		Expect(o.Insight.Subscriptions[0].ID).NotTo(Equal(o.Insight.Subscriptions[1].ID))
		list := w.Get("/meshes/" + shop + "/dataplanes+insights")
		Expect(list["total"]).To(BeEquivalentTo(2))
	})
})
