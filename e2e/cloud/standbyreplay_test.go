package cloud_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a control plane that stands by", func() {
	It("goes on with a replay job of one that is killed: no event is missing, and none comes more often than it was sent", func() {
		first := framework.NewControlPlane("run", append([]string{"--store-standby", "true"}, toReceivers...)...).Start()
		w := newWorld(first)
		second := standsBy(first, "standing by")
		all := func() []event { return slices.Concat(w.siem.arrived()...) }
		kept := w.logins(0, 12)
		Eventually(w.siem.agents, within, "10ms").Should(Equal(kept))
		events := all()

		By("the job has its request under way, and a login waits behind it")
		w.siem.hold()
		now := time.Now().UTC()
		w.do(202, "PUT", w.of("/audit-log-replay-job"), map[string]any{"start_at": now.Add(-time.Hour).Format(time.RFC3339Nano), "end_at": now.Format(time.RFC3339Nano)})
		Eventually(w.siem.agents, within, "10ms").Should(Equal(slices.Concat(kept, kept)))
		late := w.logins(12, 13)
		first.Kill()
		second.WaitReady()
		w.siem.open()
		Eventually(func() any { return w.do(200, "GET", w.of("/audit-log-replay-job"), nil)["status"] }, within, "10ms").Should(Equal("completed"))
		Eventually(w.siem.agents, within, "10ms").Should(ContainElement(late[0]))

		By("whatever would still come is before the test event, or ends a job that is completed already")
		test := w.do(202, "POST", w.of("/audit-log-webhook/test"), nil)["event_id"].(string)
		id := func(e event) string { return e.ID }
		Eventually(func() []string { return texts(all(), id) }, within, "10ms").Should(ContainElement(test))
		times := map[string]int{}
		for _, e := range all() {
			times[e.ID]++
		}
		for _, e := range events {
			Expect(times[e.ID]).To(Equal(3), "%s: when it happened, in the request that was under way, and once more as nobody knows what became of that", e.Agent)
		}
		Expect(times).To(HaveLen(len(events) + 2))
		Expect(all()).To(HaveLen(3*len(events)+2), "the login and the test came once")
		w.siem.expectNothingBad()
	})
})
