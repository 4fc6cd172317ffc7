package faults_test

import (
	"fmt"
	"net/http"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("SIGTERM", func() {
	var (
		c *framework.ControlPlane
		f *framework.Fixture
	)

	// hold sends a request that the upstream holds, and returns its outcome.
	hold := func(token string) <-chan int {
		answered := make(chan int, 1)
		go func() {
			status := 0
			r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/hold", c.HTTP, framework.RoutePath),
				http.Header{"Authorization": {"Bearer " + token}}, "")
			if err == nil {
				status = r.Status
			}
			answered <- status
		}()
		Eventually(f.Upstream.Held, 10*time.Second).Should(Receive())
		return answered
	}

	BeforeEach(func() {
		c = framework.NewControlPlane("standalone").Start()
		f = framework.NewFixture(c)
	})

	It("lets requests in flight finish", func() {
		answered := hold(f.MustMint(c.HTTPS))
		c.Signal(syscall.SIGTERM)
		Eventually(c.Output, 10*time.Second).Should(ContainSubstring("draining"))
		Expect(c.Running()).To(BeTrue())
		close(f.Upstream.Release)
		Eventually(answered, 10*time.Second).Should(Receive(Equal(200)))
		Expect(c.Exit(20*time.Second)).To(Equal(0), c.Output())
		Expect(framework.RunningEnvoy(c.StateDir)).To(BeZero())
	})

	It("ends at once the second time", func() {
		answered := hold(f.MustMint(c.HTTPS))
		pid := framework.RunningEnvoy(c.StateDir)
		c.Signal(syscall.SIGTERM)
		Eventually(c.Output, 10*time.Second).Should(ContainSubstring("draining"))
		c.Signal(syscall.SIGTERM)
		Expect(c.Exit(5 * time.Second)).NotTo(Equal(0))
		close(f.Upstream.Release)
		Eventually(answered, 10*time.Second).Should(Receive())
		Expect(framework.Alive(pid)).To(BeFalse(), "Envoy ended with its supervisor")
	})
})
