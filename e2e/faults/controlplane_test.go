package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// hears returns nil once the filter of a gateway was told where Redis is, and has it
// on its disk that it may be believed.
func hears(g *framework.Gateway) error {
	for _, name := range []string{"level2.json", "trust.json"} {
		if _, err := os.Stat(filepath.Join(g.StateDir, "run", g.Name, name)); err != nil {
			return err
		}
	}
	return nil
}

// heard returns when that is so.
func heard(g *framework.Gateway) {
	GinkgoHelper()
	Eventually(func() error { return hears(g) }, soon, 20*time.Millisecond).Should(Succeed())
}

// becomesRefused waits until a gateway refuses a token, which it never accepts: until its link is up it may not
// be able to tell.
func becomesRefused(f *framework.Fixture, g *framework.Gateway, token string) {
	GinkgoHelper()
	Eventually(func() int {
		status := f.Status(g.HTTP, token)
		Expect(status).NotTo(Equal(200))
		return status
	}, soon, often).Should(Equal(401))
}

// introspections is how many questions of filters a control plane has counted.
func introspections(c *framework.ControlPlane) int {
	GinkgoHelper()
	return int(framework.Scrape(c.Diagnostics).Sum("meshgate_introspection_duration_seconds"))
}

var _ = Describe("with two gateways", func() {
	var (
		redis *framework.Redis
		c     *framework.ControlPlane
		a, b  *framework.Gateway
		f     *framework.Fixture
	)

	BeforeEach(func() {
		redis = framework.StartRedis()
		c = framework.NewControlPlane("run", redis.Flags()...).Start()
		a, b = framework.StartGateway(c, "a"), framework.StartGateway(c, "b")
		f = framework.NewFixture(c)
	})

	It("a token revoked after use at one is refused by both", func() {
		for range 20 {
			token := f.MustMint(a.HTTPS)
			Expect(f.Status(a.HTTP, token)).To(Equal(200))
			Expect(f.Status(b.HTTP, token)).To(Equal(200))
			f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
			Expect(f.Status(b.HTTP, token)).To(Equal(401))
			Expect(f.Status(a.HTTP, token)).To(Equal(401))
		}
	})

	// restart ends the control plane under load, starts it again when gateways read
	// Redis, and returns what was served and refused. Nothing is refused before the
	// start, nor after a revocation of the new control plane is confirmed.
	restart := func(end func()) (total int, failures []string, token string) {
		token = f.MustMint(a.HTTPS)
		load := framework.StartLoad(f, a.HTTP, token, 4)
		load.Served(200)
		heard(a)
		before := redis.Calls("getrange")
		end()
		Eventually(func() int { return redis.Calls("getrange") - before }, soon, often).
			Should(BeNumerically(">", 1000), "the lease is over, Redis is asked")
		load.Served(1000)
		Expect(load.Failed()).To(BeZero(), "Redis stands in")
		c.Start()
		load.Served(1000)
		f.Converged()
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+f.MustMint(a.HTTPS), nil)
		load.Served(100) // what was on its way may still fail
		failed := load.Failed()
		load.Served(1000)
		Expect(load.Failed()).To(Equal(failed), "the control plane is back")
		total, failures = load.Stop()
		return total, failures, token
	}
	revoked := func(token string) {
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
		Expect(f.Status(a.HTTP, token)).To(Equal(401))
		Expect(f.Status(b.HTTP, token)).To(Equal(401))
	}

	It("the control plane can be stopped and started again under load", func() {
		total, failures, token := restart(func() { c.Stop() })
		Expect(failures).To(BeEmpty(), "of %d requests", total)
		revoked(token)
	})

	// What a killed one has written last may still arrive in Redis, so its successor
	// voids what is there: for a moment tokens are looked up at the control plane, which
	// may not have planned the gateway yet. How long that is depends on the machine, and
	// a refusal takes less time than an answer, so no share of the requests bounds it.
	It("the control plane can be killed and restarted under load", func() {
		total, failures, token := restart(c.Kill)
		Expect(failures).To(Or(BeEmpty(), HaveEach(MatchRegexp(`^\d+ times 503 `))), "of %d requests", total)
		AddReportEntry("refused", fmt.Sprintf("%v of %d requests", failures, total))
		revoked(token)
	})

	It("an Envoy that dies is back at once, also while the control plane is away", func() {
		token := f.MustMint(a.HTTPS)
		Expect(f.Status(a.HTTP, token)).To(Equal(200))
		heard(a)
		c.Kill()
		pid := framework.RunningEnvoy(a.StateDir)
		Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		Eventually(func() int { return f.Status(a.HTTP, token) }, soon, 20*time.Millisecond).Should(Equal(200))
		Expect(framework.RunningEnvoy(a.StateDir)).NotTo(Equal(pid))
		Expect(f.Status(a.HTTP, "never-issued")).NotTo(Equal(200))
	})

	It("a gateway whose supervisor died goes on, and is taken over by the next one", func() {
		token := f.MustMint(a.HTTPS)
		pid := framework.RunningEnvoy(a.StateDir)
		a.Kill()
		for range 50 {
			Expect(f.Status(a.HTTP, token)).To(Equal(200))
		}
		a.Restart()
		Eventually(func() int { return framework.RunningEnvoy(a.StateDir) }, soon, 20*time.Millisecond).ShouldNot(Or(Equal(pid), BeZero()))
		Eventually(func() int { return f.Status(a.HTTP, token) }, soon, 20*time.Millisecond).Should(Equal(200))
		Expect(framework.Alive(pid)).To(BeFalse(), "the old Envoy is gone")
	})

	It("1,000 concurrent first uses of a token cause one look-up", func() {
		heard(b)
		token := f.MustMint(a.HTTPS)
		before, asked := redis.Calls("getrange"), introspections(c)
		var wg sync.WaitGroup
		var refused atomic.Int64
		start := make(chan struct{})
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: soon}
		for range 1000 {
			wg.Go(func() {
				<-start
				r, err := framework.Do(client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", b.HTTP, framework.RoutePath), http.Header{"Authorization": {"Bearer " + token}}, "")
				if err != nil || r.Status != 200 {
					refused.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		Expect(refused.Load()).To(BeZero())
		// One look-up is one pipeline of record, members and clock, and then either one of the
		// two floors, or one introspection if the record was not there yet. On a busy machine the floors
		// may be read too late: then the control plane is asked as well.
		gets, questions := redis.Calls("getrange")-before, introspections(c)-asked
		Expect([]int{gets, questions}).To(Or(Equal([]int{5, 0}), Equal([]int{3, 1}), Equal([]int{5, 1})))
	})
})
