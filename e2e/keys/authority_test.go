package keys_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("the control plane's authority", func() {
	It("is replaced in three steps under load without a refused request; nodes that learned of it come back, one that was away does with the new file", func() {
		c := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(c, "g")
		own := filepath.Join(GinkgoT().TempDir(), "ca.pem")
		original, err := os.ReadFile(c.CAFile())
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(own, original, 0o600)).To(Succeed())
		away := framework.StartGateway(c, "away", "--ca-cert-file", own)
		f := framework.NewFixture(c)
		_, web := sidecars(c)
		away.Stop()
		token := f.MustMint(g.HTTPS)
		load := framework.StartLoad(f, g.HTTP, token, 2)
		inside := framework.StartTraffic(web.url, http.Header{}, 1)
		first := listed(c, "control-plane-ca")
		Expect(first).To(HaveLen(1))
		step := func(n string) {
			GinkgoHelper()
			Eventually(func() string {
				out, _ := command(c, "keys", "rotate", "control-plane-ca")
				return out
			}, patience, "100ms").Should(ContainSubstring("Step " + n + " of 3"))
			// The client of this test pins the authority as well.
			f.HTTP = framework.TrustingClient(c.CAFile())
			for range 5 {
				Expect(fresh(f, g)).To(BeEmpty())
			}
			load.Served(100)
			inside.Served(100)
		}
		step("1")
		Expect(listed(c, "control-plane-ca")).To(HaveLen(2))
		bundle, err := os.ReadFile(c.CAFile())
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Count(string(bundle), "BEGIN CERTIFICATE")).To(Equal(2))
		step("2")
		Expect(listed(c, "control-plane-ca")[0].Name).NotTo(Equal(first[0].Name))
		step("3")
		Expect(listed(c, "control-plane-ca")).To(HaveLen(1))
		served(load, inside)

		// Everybody connects anew, by the new authority alone.
		c.Stop()
		c.Start()
		Eventually(func() string { return fresh(f, g) }, patience).Should(BeEmpty())
		g.Stop()
		g.Restart()
		Eventually(func() string { return fresh(f, g) }, patience).Should(BeEmpty())
		Eventually(func() string { return listed(c, "control-plane-ca")[0].InUse }, patience).Should(Equal("3 connected nodes"))

		away.Launch()
		Eventually(away.Output, patience).Should(ContainSubstring("give the node the control plane's new ca.pem"))
		now, err := os.ReadFile(c.CAFile())
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(own+".new", now, 0o600)).To(Succeed())
		Expect(os.Rename(own+".new", own)).To(Succeed())
		Eventually(func() string { return fresh(f, away) }, patience).Should(BeEmpty())
	})
})
