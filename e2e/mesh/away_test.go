package mesh_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("without a control plane", core, func() {
	var (
		w             *world
		web, other    *member
		first, second *member
		all           []*member
		// earlier are the streams of the control plane that is killed.
		earlier map[string]string
	)

	BeforeEach(func() {
		w = newWorld("STRICT")
		first = w.start("backend-1", tags{service: "backend"})
		second = w.start("backend-2", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		other = w.start("web-2", tags{service: "web"}, "backend")
		all = []*member{web, other, first, second}
		w.ready(all...)
		for _, m := range []*member{web, other} {
			answers(m.to("backend"), 200)
		}
		earlier = map[string]string{}
		for _, m := range all {
			earlier[m.Name] = w.overview(m.Name).Insight.Subscriptions[0].ID
		}
	})

	// updates are the counters of everything that Envoy was ever sent. Identities are
	// not counted: a new stream may bring a new one.
	updates := func(m *member) map[string]int {
		stats := m.Stats()
		maps.DeleteFunc(stats, func(name string, _ int) bool {
			return strings.HasPrefix(name, "sds.identity_cert") ||
				!strings.HasSuffix(name, ".update_success") && !strings.HasSuffix(name, ".update_rejected") && !strings.HasSuffix(name, ".update_attempt")
		})
		Expect(stats["cluster_manager.cds.update_success"]).To(BeNumerically(">", 0))
		Expect(stats["listener_manager.lds.update_success"]).To(BeNumerically(">", 0))
		return stats
	}

	It("killed under load and started again: no request fails, and nothing is sent that the proxies hold", func() {
		load := framework.StartTraffic(web.to("backend"), http.Header{}, 1)
		fresh := framework.StartConnections(web.to("backend"), http.Header{}, 1, 5)
		load.Served(100)
		before := map[string]map[string]int{}
		for _, m := range all {
			before[m.Name] = updates(m)
		}
		w.cp.Kill()
		load.Served(500)
		since := time.Now()
		w.cp.Start()
		var connected []string
		measured("every proxy is back after", since, func() bool {
			connected = connected[:0]
			for _, m := range all {
				subs := w.overview(m.Name).Insight.Subscriptions
				if len(subs) == 0 {
					return false
				}
				last := subs[len(subs)-1]
				if last.ID == earlier[m.Name] || last.Disconnect != nil {
					return false
				}
				connected = append(connected, last.Connect.Sub(since).Round(time.Millisecond).String())
			}
			return true
		})
		slices.Sort(connected)
		AddReportEntry("reconnected, with jitter", strings.Join(connected, " "))
		load.Served(300)
		none(load)
		none(fresh)
		for _, m := range all {
			Expect(updates(m)).To(Equal(before[m.Name]), m.Name)
		}
		subs := w.overview("web-1").Insight.Subscriptions
		for _, kind := range []string{"cds", "eds", "lds", "rds"} {
			Expect(counter(subs[len(subs)-1].Status, kind, "responsesSent")).To(BeZero(), kind)
		}
		w.route(map[string]any{"destination": tags{service: "backend"}, "loadBalancer": map[string]any{"random": map[string]any{}}})
		w.Converged()
		Expect(web.Stat("cluster_manager.cds.update_success")).To(BeNumerically(">", before["web-1"]["cluster_manager.cds.update_success"]), "changes arrive again")
	})

	It("an Envoy that dies meanwhile is live at once from the cache on disk, and so is a whole sidecar", func() {
		load := framework.StartTraffic(web.to("backend"), http.Header{}, 1)
		load.Served(50)
		w.cp.Kill()
		pid := framework.RunningEnvoy(other.StateDir)
		Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		since := time.Now()
		measured("a killed Envoy serves again after", since, func() bool {
			return framework.RunningEnvoy(other.StateDir) != pid && called(other.to("backend")) == 200
		})
		other.Stop()
		since = time.Now()
		other.Start()
		measured("a sidecar started without a control plane serves after", since, func() bool { return called(other.to("backend")) == 200 })
		load.Served(50)
		w.cp.Start()
		Eventually(func() bool { return w.overview("web-2").online() }, patience, 20*time.Millisecond).Should(BeTrue())
		load.Served(50)
		none(load)
	})

	It("a control plane that hangs is no different from one that is gone", func() {
		load := framework.StartTraffic(web.to("backend"), http.Header{}, 1)
		load.Served(50)
		w.cp.Signal(syscall.SIGSTOP)
		pid := framework.RunningEnvoy(other.StateDir)
		Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		measured("a killed Envoy serves again after", time.Now(), func() bool {
			return framework.RunningEnvoy(other.StateDir) != pid && called(other.to("backend")) == 200
		})
		load.Served(100)
		before := web.Stat("cluster_manager.cds.update_success")
		w.cp.Signal(syscall.SIGCONT)
		w.route(map[string]any{"destination": tags{service: "backend"}, "loadBalancer": map[string]any{"random": map[string]any{}}})
		w.Converged()
		Eventually(func() int { return web.Stat("cluster_manager.cds.update_success") }, patience).Should(BeNumerically(">", before))
		none(load)
	})
})
