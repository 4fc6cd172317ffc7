package keys_test

import (
	"fmt"
	"net/http"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("keys that sign tokens", func() {
	It("are replaced under load; agents take new tokens at once, and the old key goes without a refused request", func() {
		c := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		backend, web := sidecars(c)
		load := framework.StartLoad(f, g.HTTP, token, 2)
		inside := framework.StartTraffic(web.url, http.Header{}, 1)
		load.Served(50)
		inside.Served(50)
		for n := 1; n <= 2; n++ {
			old, next := fmt.Sprint(n), fmt.Sprint(n+1)
			Expect(run(c, "keys", "rotate", "node-tokens")).To(ContainSubstring("Key " + next + " signs node tokens"))
			Expect(run(c, "keys", "rotate", "dataplane-tokens", "--mesh", "shop")).To(ContainSubstring("Key " + next + " signs the dataplane tokens"))
			Eventually(use(c, "node-tokens", "", next), patience).Should(Equal("1 node"))
			Eventually(use(c, "dataplane-tokens", "shop", next), patience).Should(Equal("2 nodes"))
			Eventually(use(c, "node-tokens", "", old), patience).Should(Equal("0 nodes"))
			run(c, "keys", "delete", "node-tokens", old, "--force")
			run(c, "keys", "delete", "dataplane-tokens", old, "--mesh", "shop", "--force")
			Expect(listed(c, "node-tokens")).To(HaveLen(1))
			// What was opened with the old tokens ends, and is opened again with new ones.
			before := load.Total()
			for range 5 {
				Expect(fresh(f, g)).To(BeEmpty())
			}
			load.Served(100)
			inside.Served(100)
			Expect(load.Total()).To(BeNumerically(">", before))
		}
		served(load, inside)
		Expect(backend.Running() && web.Running() && g.Running()).To(BeTrue())
	})

	It("are kept while a node needs them, as one whose agent may not write its token", func() {
		c := framework.NewControlPlane("run").Start()
		backend, _ := sidecars(c)
		file := backend.TokenFile()
		Expect(os.Rename(file, file+".provided")).To(Succeed())
		Expect(os.Symlink(file+".provided", file)).To(Succeed())
		out, exit := command(c, "keys", "delete", "dataplane-tokens", "1", "--mesh", "shop")
		Expect(exit).NotTo(Equal(0))
		Expect(out).To(ContainSubstring("signing key 1 of mesh shop is the last one"))
		run(c, "keys", "rotate", "dataplane-tokens", "--mesh", "shop")
		Eventually(use(c, "dataplane-tokens", "shop", "2"), patience).Should(Equal("1 node"))
		out, exit = command(c, "keys", "delete", "dataplane-tokens", "1", "--mesh", "shop")
		Expect(exit).NotTo(Equal(0))
		Expect(out).To(ContainSubstring("in use by the tokens of 1 node (shop.backend-1)"))
		// Whoever provides the token does so.
		Expect(os.WriteFile(file+".new", []byte(c.API().DataplaneToken("shop", "backend-1", "1h")), 0o600)).To(Succeed())
		Expect(os.Rename(file+".new", file+".provided")).To(Succeed())
		Eventually(use(c, "dataplane-tokens", "shop", "1"), patience).Should(Equal("0 nodes"))
		// After a start of the control plane nobody is known, which is nobody's consent.
		Eventually(func() string {
			out, _ := command(c, "keys", "delete", "dataplane-tokens", "1", "--mesh", "shop")
			return out
		}, patience).Should(ContainSubstring("Key 1 of dataplane-tokens is deleted"))
	})
})

// proxied is a sidecar with the address of what it leads to.
type proxied struct {
	*framework.Sidecar
	url string
}

// sidecars are two proxies of mesh shop: web leads to backend.
func sidecars(c *framework.ControlPlane) (backend, web proxied) {
	api := c.API()
	api.Put("meshes", framework.Document{
		"type": "Mesh", "name": "shop",
		"mtls": map[string]any{"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin"}}},
	})
	work, p := framework.StartWorkload("backend-1"), framework.FreePorts(3)
	for _, d := range []struct {
		name, service string
		port          int
		out           []any
	}{
		{"backend-1", "backend", p[0], nil},
		{"web-1", "web", p[1], []any{map[string]any{"port": p[2], "tags": map[string]string{"mesh.io/service": "backend"}}}},
	} {
		api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": "shop", "name": d.name, "networking": map[string]any{
			"address":  "127.0.0.1",
			"inbound":  []any{map[string]any{"port": d.port, "servicePort": work.Port, "tags": map[string]string{"mesh.io/service": d.service, "mesh.io/protocol": "http"}}},
			"outbound": d.out,
		}})
	}
	backend.Sidecar = framework.NewSidecar(c, "shop", "backend-1", "").Start()
	web = proxied{framework.NewSidecar(c, "shop", "web-1", "").Start(), fmt.Sprintf("http://127.0.0.1:%d", p[2])}
	backend.WaitReady()
	web.WaitReady()
	api.Converged()
	return backend, web
}
