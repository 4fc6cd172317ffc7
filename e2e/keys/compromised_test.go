package keys_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("compromised keys that sign tokens", func() {
	It("are withdrawn in one step, with what was exchanged for their tokens; traffic goes on and nodes come back with new tokens", func() {
		c := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		backend, web := sidecars(c)
		// What a thief of the keys can make.
		forged := map[string]string{"node-tokens": gatewayToken(c, "g"), "dataplane-tokens": c.API().DataplaneToken("shop", "backend-1", "1h")}
		run(c, "keys", "rotate", "node-tokens")
		run(c, "keys", "rotate", "dataplane-tokens", "--mesh", "shop")
		Eventually(use(c, "node-tokens", "", "2"), patience).Should(Equal("1 node"))
		Eventually(use(c, "dataplane-tokens", "shop", "2"), patience).Should(Equal("2 nodes"))
		laundered := map[string]string{}
		for kind, token := range forged {
			r := exchange(c, token)
			Expect(r.Status).To(Equal(http.StatusOK), r.Body)
			laundered[kind] = r.Body
		}
		load := framework.StartLoad(f, g.HTTP, token, 1)
		inside := framework.StartTraffic(web.url, http.Header{}, 1)
		load.Served(50)
		inside.Served(50)

		Expect(run(c, "keys", "rotate", "node-tokens", "--compromised")).To(And(
			ContainSubstring("Key 3 signs node tokens from now on. Withdrawn: keys 1, 2."), ContainSubstring("1 node (cp/default/g) came with such tokens")))
		Expect(run(c, "keys", "rotate", "dataplane-tokens", "--mesh", "shop", "--compromised")).To(And(
			ContainSubstring("Key 3 signs the dataplane tokens of mesh shop from now on. Withdrawn: keys 1, 2."), ContainSubstring("2 nodes (shop.backend-1, shop.web-1) came with such tokens")))
		for kind := range forged {
			for _, token := range []string{forged[kind], laundered[kind]} {
				r := exchange(c, token)
				Expect(r.Status).To(Equal(http.StatusUnauthorized))
				Expect(r.Body).To(ContainSubstring("because it is compromised: the node needs a new token"))
			}
		}
		Eventually(func() []string { return refused(c) }, patience).Should(ConsistOf(
			MatchRegexp(`^cp/default/g: .* signed by key 2, which was withdrawn at .* because it is compromised`),
			MatchRegexp(`^shop.backend-1: .* signed by key 2, which was withdrawn at`), MatchRegexp(`^shop.web-1: .* signed by key 2, which was withdrawn at`)))
		load.Served(100)
		inside.Served(100)

		backend.WriteToken(c.API().DataplaneToken("shop", "backend-1", "1h"))
		web.WriteToken(c.API().DataplaneToken("shop", "web-1", "1h"))
		c.API().WriteGatewayToken("g", filepath.Join(g.StateDir, "token"))
		Eventually(use(c, "node-tokens", "", "3"), patience).Should(Equal("1 node"))
		Eventually(use(c, "dataplane-tokens", "shop", "3"), patience).Should(Equal("2 nodes"))
		Eventually(func() []string { return refused(c) }, patience).Should(BeEmpty())
		for range 5 {
			Expect(fresh(f, g)).To(BeEmpty())
		}
		load.Served(100)
		inside.Served(100)
		served(load, inside)
		Expect(backend.Running() && web.Running() && g.Running()).To(BeTrue())
	})
})

// gatewayToken is a new token of a gateway.
func gatewayToken(c *framework.ControlPlane, name string) string {
	file := filepath.Join(GinkgoT().TempDir(), "token")
	c.API().WriteGatewayToken(name, file)
	token, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	return string(token)
}

// exchange asks for the successor of a token, as agents do.
func exchange(c *framework.ControlPlane, token string) *framework.Response {
	r, err := framework.Do(c.API().HTTP, http.MethodPost, fmt.Sprintf("https://localhost:%d/bootstrap/token", c.Data), http.Header{"Authorization": {"Bearer " + token}}, "")
	Expect(err).NotTo(HaveOccurred())
	return r
}

// refused are the nodes that are refused, each with the reason.
func refused(c *framework.ControlPlane) (out []string) {
	items, _ := c.API().Get("/nodes?state=refused")["items"].([]any)
	for _, i := range items {
		n := i.(map[string]any)
		out = append(out, fmt.Sprintf("%s: %s", n["name"], n["reason"]))
	}
	return out
}
