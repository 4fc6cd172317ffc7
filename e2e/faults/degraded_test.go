package faults_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
	"github.com/meshgate/meshgate/filter/contract"
)

// condition is one of those that /ready lists.
type condition struct{ Name, State, Reason, Text string }

// readyConditions asks a /ready; the conditions that are not in order are by their
// names.
func readyConditions(port int) (status int, bad map[string]condition, err error) {
	r, err := framework.Do(http.DefaultClient, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/ready", port), nil, "")
	if err != nil {
		return 0, nil, err
	}
	var doc struct{ Conditions []condition }
	if err := json.Unmarshal([]byte(r.Body), &doc); err != nil || len(doc.Conditions) == 0 {
		return r.Status, nil, fmt.Errorf("%s: %w", r.Body, err)
	}
	bad = map[string]condition{}
	for _, c := range doc.Conditions {
		if c.State != "ok" {
			bad[c.Name] = c
		}
	}
	return r.Status, bad, nil
}

// reason is that of a condition, "" while it is in order.
func reason(port int, name string) func() (string, error) {
	return func() (string, error) {
		_, bad, err := readyConditions(port)
		return bad[name].Reason, err
	}
}

// told waits for so many lines of a log about a condition, and demands that there are no more: what a process prints
// is here a moment after what it answers.
func told(by interface{ Output() string }, condition string, times int) {
	GinkgoHelper()
	lines := func() int { return strings.Count(by.Output(), "condition="+condition+" ") }
	Eventually(lines, soon, often).Should(BeNumerically(">=", times), by.Output)
	Expect(lines()).To(Equal(times), by.Output)
}

// links is how many filters are linked to a control plane.
func links(c *framework.ControlPlane) func() float64 {
	return func() float64 { return framework.Scrape(c.Diagnostics).Sum("meshgate_links") }
}

const soon, often = time.Minute, 50 * time.Millisecond

var _ = Describe("degraded and not silent", func() {
	// A busy machine may need more than a lease for a start, which says nothing of this: one of several is in time.
	It("a control plane with the embedded cache that is back within a lease costs no request", func() {
		// When it goes, the last renewal may be so long ago.
		const bearable = contract.Lease - contract.LeaseMargin - contract.RenewEvery
		c := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		for range 10 {
			load := framework.StartLoad(f, g.HTTP, token, 4)
			load.Served(200)
			began := time.Now()
			c.Stop()
			c.Start()
			Eventually(links(c), soon, 5*time.Millisecond).Should(BeEquivalentTo(1))
			away := time.Since(began)
			load.Served(2000)
			if away >= bearable {
				Eventually(func() int { return f.Status(g.HTTP, token) }, soon, often).Should(Equal(200))
			}
			// What is not in memory needs the new process as well.
			fresh := f.MustMint(g.HTTPS)
			Expect(f.Status(g.HTTP, fresh)).To(Equal(200))
			total, failures := load.Stop()
			AddReportEntry("away", fmt.Sprintf("%s, %d requests", away.Round(time.Millisecond), total))
			if away < bearable {
				Expect(failures).To(BeEmpty(), "away for %s, of %d requests", away, total)
				return
			}
			Expect(failures).To(Or(BeEmpty(), HaveEach(MatchRegexp(`^\d+ times 503 `))), "away for %s, of %d requests", away, total)
		}
		Fail("it was never back within a lease")
	})

	It("one that stays away stops token checks when the lease is over, and the proxy says why", func() {
		c := framework.NewControlPlane("run").Start()
		status := framework.FreePorts(1)[0]
		g := framework.StartGateway(c, "g", "--status-port", fmt.Sprint(status))
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		c.Stop()
		began := time.Now()
		Eventually(func() int { return f.Status(g.HTTP, token) }, soon, often).Should(Equal(503))
		AddReportEntry("token checks ended after", time.Since(began).Round(10*time.Millisecond).String())
		Eventually(reason(status, "control_plane"), soon, often).Should(Equal("refused"))
		ready, bad, err := readyConditions(status)
		Expect(err).NotTo(HaveOccurred())
		Expect(ready).To(Equal(200), "the proxy serves what needs no token")
		Expect(bad["control_plane"].Text).To(ContainSubstring("--cp-address"))
		r, err := framework.Page(status)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Body).To(ContainSubstring(`meshgate_condition{condition="control_plane",state="degraded"} 1`))
		Eventually(reason(status, "token_checks"), soon, often).Should(Equal("stopped"))
		Expect(readyPage(f, status)()).To(HavePrefix(`200 {"message":"ready, but token checks have stopped"`))
		c.Start()
		Eventually(func() int { return f.Status(g.HTTP, token) }, soon, often).Should(Equal(200))
		Eventually(reason(status, "control_plane"), soon, often).Should(BeEmpty())
		told(g, "control_plane", 2)
		Expect(strings.Count(g.Output(), `level=WARN msg="control plane cannot be reached"`)).To(BeNumerically("<=", 2), "the filter tells once, too")
	})

	It("a Redis and a control plane that are both away stop token checks, and the proxy names both", func() {
		redis := framework.StartRedis()
		c := framework.NewControlPlane("run", redis.Flags()...).Start()
		status := framework.FreePorts(1)[0]
		g := framework.StartGateway(c, "g", "--status-port", fmt.Sprint(status))
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		heard(g)
		page := readyPage(f, status)
		Expect(page()).To(HavePrefix(`200 {"message":"ready",`))

		c.Stop()
		Eventually(reason(status, "control_plane"), soon, often).Should(Equal("refused"))
		Expect(f.Status(g.HTTP, token)).To(Equal(200), "Redis stands in")
		Expect(reason(status, "token_checks")()).To(BeEmpty())

		redis.Kill()
		Eventually(func() int { return f.Status(g.HTTP, token) }, soon, often).Should(Equal(503))
		Eventually(page, soon, often).Should(HavePrefix(`200 {"message":"ready, but token checks have stopped"`))
		_, bad, err := readyConditions(status)
		Expect(err).NotTo(HaveOccurred())
		Expect(bad["token_checks"].Text).To(And(ContainSubstring("answered 503"), ContainSubstring("the control plane https://"), ContainSubstring("the Redis that stands in for the control plane cannot be read from here")))
		r, err := framework.Page(status)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Body).To(ContainSubstring(`meshgate_condition{condition="token_checks",state="degraded"} 1`))
		told(g, "token_checks", 1)

		c.Start()
		Eventually(func() int { return f.Status(g.HTTP, token) }, soon, often).Should(Equal(200))
		Eventually(reason(status, "token_checks"), soon, often).Should(BeEmpty())
	})

	It("a Redis that is lost, wrong and found again is said once each time", func() {
		redis := framework.StartRedis()
		redis.Kill()
		c := framework.NewControlPlane("run", "--redis-url", fmt.Sprintf("127.0.0.1:%d", redis.Port)).Start()
		Eventually(reason(c.Diagnostics, "redis"), soon, often).Should(Equal("refused"))
		status, bad, err := readyConditions(c.Diagnostics)
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(200))
		Expect(bad["redis"].Text).To(And(ContainSubstring("nothing listens there"), ContainSubstring("traffic goes on")))
		Expect(bad).To(HaveLen(1))
		ask := framework.Start(nil, framework.Binary(), "status", "--address", fmt.Sprintf("http://127.0.0.1:%d", c.Mesh))
		Expect(ask.Exit(soon)).To(Equal(2), "meshgate status is asked by whoever is woken, and says it first")
		Expect(ask.Output()).To(MatchRegexp(`^WRONG +SINCE +WHOM +WHY\nredis degraded +\S+Z +control plane +.*nothing listens there.*\n\nNAME `))
		redis.Restart()
		Eventually(reason(c.Diagnostics, "redis"), soon, often).Should(BeEmpty())
		redis.CLI("config", "set", "requirepass", "pa55word")
		redis.CLI("-a", "pa55word", "client", "kill", "type", "normal", "skipme", "yes")
		Eventually(reason(c.Diagnostics, "redis"), soon, often).Should(Equal("no_password"))
		told(c, "redis", 3)
		r, err := framework.Page(c.Diagnostics)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Body).To(ContainSubstring(`meshgate_condition{condition="redis",state="degraded"} 1`))
	})

	It("a full disk refuses writes with 507 while traffic goes on, and recovers by itself", func() {
		dir := GinkgoT().TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
			Skip("a small file system cannot be mounted here, which needs root: " + err.Error())
		}
		DeferCleanup(func() { Expect(syscall.Unmount(dir, 0)).To(Succeed()) })
		c := framework.NewControlPlane("run")
		c.StateDir = dir
		c.Start()
		DeferCleanup(func() { c.Stop() })
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		load := framework.StartLoad(f, g.HTTP, token, 2)
		load.Served(50)
		ballast := filepath.Join(dir, "ballast")
		Expect(os.WriteFile(ballast, make([]byte, 16<<20), 0o600)).NotTo(Succeed(), "it takes what there is")
		var r *framework.Response
		made := 0
		for made = range 5000 {
			if r = f.API.Admin(http.MethodPost, "/consumers", map[string]any{"username": fmt.Sprintf("fills-%d", made), "custom_id": strings.Repeat("x", 120)}); r.Status != 201 {
				break
			}
		}
		Expect(r.Status).To(Equal(507), r.Body)
		Expect(r.Body).To(ContainSubstring("is full"))
		Expect(f.API.Mesh(http.MethodPut, "/meshes/more", map[string]any{"type": "Mesh", "name": "more"}).Status).To(Equal(507))
		_, err := f.Mint(g.HTTPS)
		Expect(err).To(MatchError(And(ContainSubstring("503"), ContainSubstring("temporarily_unavailable"), Not(ContainSubstring("disk")))))
		status, bad, err := readyConditions(c.Diagnostics)
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(200))
		Expect(bad["store"].Reason).To(Equal("disk_full"))
		Expect(f.API.Admin(http.MethodGet, fmt.Sprintf("/consumers/fills-%d", made), nil).Status).To(Equal(404), "nothing is left of what was refused")
		load.Served(200)
		Expect(os.Remove(ballast)).To(Succeed())
		Eventually(reason(c.Diagnostics, "store"), soon, often).Should(BeEmpty(), "although nobody writes")
		Expect(f.Status(g.HTTP, f.MustMint(g.HTTPS))).To(Equal(200))
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
		told(c, "store", 2)
	})
})
