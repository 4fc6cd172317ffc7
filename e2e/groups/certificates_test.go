package groups_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// certified is a gateway with a client certificate instead of a token, and the certificate.
func (c *cloud) certified(name, plane string) (*framework.Gateway, string) {
	GinkgoHelper()
	g := framework.NewGateway(c.c, name, "--control-plane", plane)
	Expect(os.Remove(filepath.Join(g.StateDir, "token"))).To(Succeed())
	cert, key := framework.Certificate(name)
	certFile, keyFile := filepath.Join(g.StateDir, "client.pem"), filepath.Join(g.StateDir, "client.key")
	Expect(os.WriteFile(certFile, []byte(cert), 0o600)).To(Succeed())
	Expect(os.WriteFile(keyFile, []byte(key), 0o600)).To(Succeed())
	g.Append("--dataplane-token-file", "", "--client-cert-file", certFile, "--client-key-file", keyFile)
	return g, cert
}

var _ = Describe("a gateway with a client certificate", Ordered, func() {
	var c *cloud
	var team, at, id string
	var gw *framework.Gateway

	within := func(what func() any) AsyncAssertion {
		GinkgoHelper()
		return Eventually(what, patience, 50*time.Millisecond)
	}
	nodes := func() any {
		types := []any{}
		for _, n := range c.do(200, "GET", group(team)+"/nodes", nil)["items"].([]any) {
			types = append(types, n.(map[string]any)["type"])
		}
		return types
	}

	BeforeAll(func() {
		c = newCloud(framework.NewControlPlane("run").Start())
		up := framework.StartUpstream()
		team = c.plane("team", ofMany)
		shop := c.plane("shop", hybrid)
		c.publish(shop, "shop", up)
		c.do(204, "PUT", group(team)+"/group-memberships", members(shop))
		at = group(team) + "/dp-client-certificates"
		var cert string
		gw, cert = c.certified("gw", "team")
		id = c.do(201, "POST", at, map[string]any{"cert": cert})["item"].(map[string]any)["id"].(string)
		gw.Restart()
	})

	It("is turned away while no control plane lists it", func() {
		lost, _ := c.certified("lost", "team")
		lost.Launch()
		Expect(lost.Exit(framework.ReadyTimeout)).NotTo(BeZero())
		Expect(lost.Output()).To(ContainSubstring("does not list the client certificate"))
	})

	It("serves the routes of the group that lists it", func() {
		within(func() any { return c.status(gw, "shop", "") }).Should(Equal(401))
		token := c.mint(gw, "shop")
		Expect(c.status(gw, "shop", token)).To(Equal(200))
		within(nodes).Should(Equal([]any{"gateway-connected"}))
	})

	It("is disconnected once it is not listed any more, and cannot come back", func() {
		c.do(204, "DELETE", at+"/"+id, nil)
		within(nodes).ShouldNot(Equal([]any{"gateway-connected"}))
		within(func() any { return gw.Output() }).Should(ContainSubstring("does not list the client certificate"))
		gw.Stop()
		gw.Launch()
		Expect(gw.Exit(framework.ReadyTimeout)).NotTo(BeZero())
		Expect(gw.Output()).To(ContainSubstring("does not list the client certificate"))
		Expect(nodes()).NotTo(Equal([]any{"gateway-connected"}))
	})
})
