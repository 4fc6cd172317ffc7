package faults_test

import (
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("Redis", func() {
	var (
		redis *framework.Redis
		c     *framework.ControlPlane
		f     *framework.Fixture
	)

	BeforeEach(func() {
		redis = framework.StartRedis()
		c = framework.NewControlPlane("standalone", "--redis-url", redis.URL()).Start()
		f = framework.NewFixture(c)
	})

	// revokes demands that a revocation is honoured at the very next call.
	revokes := func() {
		token := f.MustMint(c.HTTPS)
		ExpectWithOffset(1, f.Status(c.HTTP, token)).To(Equal(200))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
		ExpectWithOffset(1, f.Status(c.HTTP, token)).To(Equal(401))
	}

	It("can be killed and restarted empty under load", func() {
		good, gone := f.MustMint(c.HTTPS), f.MustMint(c.HTTPS)
		Expect(f.Status(c.HTTP, gone)).To(Equal(200))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+gone, nil)
		load := framework.StartLoad(f, c.HTTP, good, 4)
		load.Served(200)
		redis.Kill()
		load.Served(200)
		revokes()
		Expect(f.Status(c.HTTP, "never-issued")).To(Equal(401))
		redis.Restart()
		load.Served(200)
		revokes()
		Expect(f.Status(c.HTTP, gone)).To(Equal(401))
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
	})

	It("can stand still under load", func() {
		good := f.MustMint(c.HTTPS)
		fresh := f.MustMint(c.HTTPS)
		load := framework.StartLoad(f, c.HTTP, good, 4)
		load.Served(200)
		redis.Pause()
		DeferCleanup(redis.Resume)
		load.Served(500)
		Expect(f.Status(c.HTTP, fresh)).To(Equal(200), "introspection answers what L1 does not know")
		revokes()
		redis.Resume()
		load.Served(500)
		revokes()
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
	})

	It("and the control plane away together refuse with 503", func() {
		// The gateway must outlive its control plane, so it is a process of its own.
		g := framework.StartGateway(c, "second")
		f.Converged()
		token := f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		c.Kill()
		redis.Kill()
		Eventually(func() int { return f.Status(g.HTTP, token) }, 15*time.Second, 50*time.Millisecond).Should(Equal(503))
		Expect(f.Status(g.HTTP, "never-issued")).To(Equal(503))
	})
})
