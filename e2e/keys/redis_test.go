package keys_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("the passwords of Redis", func() {
	It("change, with two at a time and a start of the control plane, while what gateways know is served", func() {
		redis := framework.StartRedis()
		writes := redis.User("controlplane", strings.Fields("resetchannels &meshgate:* ~meshgate:* -@all +get +getrange +set +info +ping +subscribe +select")...)
		reads := redis.User("dataplane", strings.Fields("resetchannels ~meshgate:* -@all +get +getrange +info +ping +select")...)
		// The URLs hold passwords, which flags would show to everybody.
		file := filepath.Join(GinkgoT().TempDir(), "meshgate.yaml")
		tell := func(writes, reads string) {
			Expect(os.WriteFile(file, fmt.Appendf(nil, "redis:\n  url: %q\n  nodeURL: %q\n", writes, reads), 0o600)).To(Succeed())
		}
		tell(writes, reads)
		c := framework.NewControlPlane("run", "--config", file).Start()
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		load := framework.StartLoad(f, g.HTTP, f.MustMint(g.HTTPS), 2)
		load.Served(50)
		Eventually(func() string { fresh(f, g); return redis.CLI("CLIENT", "LIST") }, patience).Should(ContainSubstring("user=dataplane"))

		for _, user := range []string{"controlplane", "dataplane"} {
			Expect(redis.CLI("ACL", "SETUSER", user, ">new-"+user)).To(Equal("OK"))
		}
		c.Stop()
		tell(strings.Replace(writes, ":controlplane@", ":new-controlplane@", 1), strings.Replace(reads, ":dataplane@", ":new-dataplane@", 1))
		c.Start()
		// A filter without a link has Redis alone: the old password goes when it is back.
		Eventually(func() float64 { return framework.Scrape(c.Diagnostics).Sum("meshgate_links") }, patience).Should(BeEquivalentTo(1))
		Eventually(func() string { return fresh(f, g) }, patience).Should(BeEmpty())
		for _, user := range []string{"controlplane", "dataplane"} {
			Expect(redis.CLI("ACL", "SETUSER", user, "<"+user)).To(Equal("OK"))
			redis.CLI("CLIENT", "KILL", "USER", user)
		}
		// By the new passwords alone.
		for range 5 {
			Expect(fresh(f, g)).To(BeEmpty())
		}
		Eventually(func() string { fresh(f, g); return redis.CLI("CLIENT", "LIST") }, patience).Should(
			And(ContainSubstring("user=dataplane"), ContainSubstring("user=controlplane")))
		load.Served(100)
		served(load)
	})
})
