package cloud_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// standsBy starts a control plane with the settings of another one, which is to wait for that.
func standsBy(first *framework.ControlPlane, says string, more ...string) *framework.ControlPlane {
	GinkgoHelper()
	second := *first
	second.Args = append(slices.Clone(first.Args), more...)
	second.Launch()
	Eventually(second.Output, within, "10ms").Should(ContainSubstring(says))
	return &second
}

// sockets are the sockets that a process has.
func sockets(pid int) (list []string) {
	GinkgoHelper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(to, "socket:") {
			list = append(list, to)
		}
	}
	return list
}

// deliver lets the receiver take some events and then hold the next request. It returns the browsers of all events,
// of which that request has some.
func (w *world) deliver() (agents []string) {
	GinkgoHelper()
	agents = w.logins(0, 5)
	Eventually(w.siem.agents, within, "10ms").Should(Equal(agents))
	w.siem.hold()
	before := len(w.siem.arrived())
	agents = append(agents, w.logins(5, 12)...)
	Eventually(func() int { return len(w.siem.arrived()) }, within, "10ms").Should(Equal(before + 1))
	return agents
}

var _ = Describe("a control plane that stands by", func() {
	var (
		first *framework.ControlPlane
		w     *world
	)

	BeforeEach(func() {
		first = framework.NewControlPlane("run", append([]string{"--store-standby", "true"}, toReceivers...)...).Start()
		w = newWorld(first)
	})

	It("takes over from one that is killed: no event is lost, and none comes twice but those under way", func() {
		gateway := framework.StartGateway(first, "gateway-1")
		fixture := framework.NewFixture(first)
		token := fixture.MustMint(gateway.HTTPS)
		fixture.Must(201, "POST", "/services", map[string]any{"name": "open", "url": fixture.Upstream.URL})
		fixture.Must(201, "POST", "/services/open/routes", map[string]any{"name": "open", "paths": []string{"/open"}})
		fixture.Converged()
		second := standsBy(first, fmt.Sprintf("another control plane has the store %s; standing by", filepath.Join(first.StateDir, "meshgate.db")),
			"--state-dir", GinkgoT().TempDir(), "--store-sqlite-path", filepath.Join(first.StateDir, "meshgate.db"),
			"--store-encryption-key-file", filepath.Join(first.StateDir, "encryption.key"))
		Expect(sockets(second.PID())).To(BeEmpty(), "it opens nothing before")

		open := framework.StartTraffic(fmt.Sprintf("http://127.0.0.1:%d/open", gateway.HTTP), nil, 1)
		protected := framework.StartLoad(fixture, gateway.HTTP, token, 1)
		open.Served(50)
		protected.Served(50)
		want := w.deliver()
		first.Kill()
		batches := w.siem.arrived()
		held := batches[len(batches)-1]
		second.WaitReady()
		want = append(want, w.logins(12, 15)...)
		w.siem.open()
		Eventually(func() int { return fixture.Status(gateway.HTTP, token) }, within, "10ms").Should(Equal(200))
		open.Served(100)
		protected.Served(100)
		total, failures := open.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
		// Tokens cannot be checked for a moment if the second takes longer than the leases of the first last.
		total, failures = protected.Stop()
		for _, failure := range failures {
			Expect(failure).To(ContainSubstring(" times 503 "), "of %d requests", total)
		}
		AddReportEntry("refused", fmt.Sprintf("%v of %d requests with a token", failures, total))

		Eventually(w.siem.agents, within, "10ms").Should(ContainElement(want[len(want)-1]))
		var once, again []event
		for _, e := range slices.Concat(w.siem.arrived()...) {
			if slices.Contains(once, e) {
				again = append(again, e)
				continue
			}
			once = append(once, e)
		}
		Expect(again).To(Equal(held), "nobody knows what became of these")
		Expect(texts(once, func(e event) string { return e.Agent })).To(Equal(want))
		w.siem.expectNothingBad()

		Expect(strings.Count(second.Output(), "standing by")).To(Equal(1))
		fixture.Must(204, "DELETE", "/oauth2_tokens/"+token, nil)
		Expect(fixture.Status(gateway.HTTP, token)).To(Equal(401))
	})

	It("takes over from one that is told to end, with the same settings: nothing comes twice", func() {
		second := standsBy(first, "another meshgate has the state directory "+first.StateDir+"; standing by")
		want := w.deliver()
		first.Signal(syscall.SIGTERM)
		Eventually(func() error { // it listens no more, and waits for the answer
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", first.Cloud)) //nolint:noctx // a test
			if err == nil {
				_ = conn.Close()
			}
			return err
		}, within, "10ms").Should(MatchError(syscall.ECONNREFUSED))
		Expect(first.Running()).To(BeTrue(), first.Output)
		w.siem.open()
		Expect(first.Exit(within)).To(Equal(0), first.Output())
		second.WaitReady()
		want = append(want, w.logins(12, 15)...)
		Eventually(func() int { return len(w.siem.agents()) }, within, "10ms").Should(BeNumerically(">=", len(want)))
		Expect(w.siem.agents()).To(Equal(want))
		w.siem.expectNothingBad()
	})

	It("can be told to end at once", func() {
		second := standsBy(first, "standing by")
		third := standsBy(first, "standing by", "--state-dir", GinkgoT().TempDir(), "--store-sqlite-path", filepath.Join(first.StateDir, "meshgate.db"))
		for _, c := range []*framework.ControlPlane{second, third} {
			c.Signal(syscall.SIGTERM)
			Expect(c.Exit(within)).To(Equal(0), c.Output())
		}
		Expect(framework.Ready(first.Diagnostics)).To(Succeed())
	})
})
