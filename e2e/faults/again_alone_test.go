package faults_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A gateway that is restarted while the control plane is away has nobody to tell it what
// Redis is worth, and must neither forget what it was told nor claim to be ready when it
// was told nothing.
var _ = Describe("A gateway that starts while the control plane is away", func() {
	var (
		c      *framework.ControlPlane
		g      *framework.Gateway
		f      *framework.Fixture
		token  string
		status int
	)

	BeforeEach(func() {
		redis := framework.StartRedis()
		c = framework.NewControlPlane("run", redis.Flags()...).Start()
		status = framework.FreePorts(1)[0]
		g = framework.StartGateway(c, "g", "--status-port", fmt.Sprint(status))
		f = framework.NewFixture(c)
		token = f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		heard(g)
	})

	It("goes on with Redis if it was stopped after the control plane", func() {
		c.Stop()
		g.Stop()
		g.Restart()
		Eventually(func() int { return f.Status(g.HTTP, token) }, soon, often).Should(Equal(200))
		ready, _, err := readyConditions(status)
		Expect(err).NotTo(HaveOccurred())
		Expect(ready).To(Equal(200))
		c.Start()
		f.Must(204, "DELETE", "/oauth2_tokens/"+token, nil)
		Expect(f.Status(g.HTTP, token)).To(Equal(401))
	})

	It("is not ready if it was stopped before, until the control plane is back", func() {
		g.Stop()
		c.Stop()
		g.Restart()
		Eventually(reason(status, "control_plane"), soon, often).Should(Equal("refused"))
		Expect(f.Status(g.HTTP, token)).To(Equal(503))
		page := readyPage(f, status)
		Consistently(page, time.Second, often).Should(And(HavePrefix("503 "), ContainSubstring("no token can be decided")))
		c.Start()
		Eventually(page, soon, often).Should(HavePrefix("200 "))
		Eventually(func() int { return f.Status(g.HTTP, token) }, soon, often).Should(Equal(200))
	})
})

// What stands on a gateway's disk speaks of a Redis that the control plane took along.
var _ = Describe("A gateway of an embedded cache that starts while the control plane is away", func() {
	It("is not ready, and says why", func() {
		c := framework.NewControlPlane("run").Start()
		status := framework.FreePorts(1)[0]
		g := framework.StartGateway(c, "g", "--status-port", fmt.Sprint(status))
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		heard(g)
		c.Stop()
		g.Stop()
		g.Restart()
		Eventually(reason(status, "control_plane"), soon, often).Should(Equal("refused"))
		Expect(f.Status(g.HTTP, token)).To(Equal(503))
		page := readyPage(f, status)
		Consistently(page, time.Second, often).Should(And(HavePrefix("503 "), ContainSubstring("the Redis that stands in for it cannot be read")))
		c.Start()
		Eventually(page, soon, often).Should(HavePrefix("200 "))
	})
})

// readyPage asks an agent for /ready, and returns status and body or the error.
func readyPage(f *framework.Fixture, status int) func() string {
	return func() string {
		r, err := framework.Do(f.HTTP, "GET", fmt.Sprintf("http://127.0.0.1:%d/ready", status), nil, "")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(r.Status, " ", r.Body)
	}
}
