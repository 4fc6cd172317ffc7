package cloud_test

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a login", func() {
	It("is at the receiver in a request of its own, which nothing had to be tried again for", func() {
		c := framework.NewControlPlane("run", toReceivers...).Start()
		w := newWorld(c)
		const logins = 20 // one developer may log in so often at once
		late := make([]time.Duration, logins)
		var want []string
		for n := range logins {
			want = append(want, w.logins(n, n+1)...)
			answered := time.Now()
			Eventually(w.siem.agents, within, "10ms").Should(Equal(want))
			late[n] = w.siem.arrival(want[n]).Sub(answered)
		}
		// How long it takes is reported and no condition, as the machine may be busy. That no time passes but the window
		// of a batch is TestDelay of controlplane/audit/delivery, in virtual time.
		slices.Sort(late)
		AddReportEntry("from the answer to a login to its receipt", fmt.Sprintf("best %v, median %v, worst %v of %d", late[0], (late[logins/2-1]+late[logins/2])/2, late[logins-1], logins))

		Expect(w.siem.arrived()).To(HaveLen(logins))
		counted := func(name string) func() float64 {
			return func() float64 { return framework.Scrape(c.Diagnostics).Sum("meshgate_audit_" + name) }
		}
		Eventually(counted("events_delivered_total"), within, "10ms").Should(BeEquivalentTo(logins), "the last answer may be on its way")
		Eventually(counted("events_waiting"), within, "10ms").Should(BeZero())
		for _, name := range []string{"webhooks_inactive", "webhook_failures_total"} {
			Expect(counted(name)()).To(BeZero(), name)
		}
		w.siem.expectNothingBad()
	})
})
