package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
		c = framework.NewControlPlane("standalone", redis.Flags()...).Start()
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
		Eventually(func() int { return f.Status(g.HTTP, token) }, soon, often).Should(Equal(503))
		Expect(f.Status(g.HTTP, "never-issued")).To(Equal(503))
	})
})

var _ = Describe("Redis users", func() {
	// rules are the two lines that SECURITY.md recommends.
	rules := func(user string) []string {
		text, err := os.ReadFile(filepath.Join(framework.Root(), "SECURITY.md"))
		Expect(err).NotTo(HaveOccurred())
		_, rest, found := strings.Cut(string(text), "ACL SETUSER "+user+" on >… ")
		Expect(found).To(BeTrue(), user)
		line, _, _ := strings.Cut(rest, "`")
		return strings.Fields(line)
	}

	It("need no more than SECURITY.md gives them", func() {
		redis := framework.StartRedis()
		// The URLs hold passwords, which flags would show to everybody.
		file := filepath.Join(GinkgoT().TempDir(), "meshgate.yaml")
		text := fmt.Sprintf("redis:\n  url: %q\n  nodeURL: %q\n",
			redis.User("controlplane", rules("controlplane")...), redis.User("dataplane", rules("dataplane")...))
		Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		c := framework.NewControlPlane("run", "--config", file).Start()
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		revoked, token := f.MustMint(g.HTTPS), f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, revoked)).To(Equal(200))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+revoked, nil)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		heard(g)
		before := redis.Calls("getrange")
		c.Kill()
		Eventually(func() int {
			Expect(f.Status(g.HTTP, token)).To(Equal(200))
			return redis.Calls("getrange") - before
		}, soon, 20*time.Millisecond).Should(BeNumerically(">", 20), "the lease is over, Redis is read")
		Expect(f.Status(g.HTTP, revoked)).NotTo(Equal(200))
		settings, err := os.ReadFile(filepath.Join(g.StateDir, "run", "g", "level2.json"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(settings)).To(And(ContainSubstring("dataplane:dataplane@"), Not(ContainSubstring("controlplane:controlplane"))))
	})
})
