package admin_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// tool runs the declarative tool on a control plane, and returns what it prints.
func tool(c *framework.ControlPlane, code int, args ...string) string {
	if args[0] == "gateway" {
		args = append(args, "--gateway-addr", fmt.Sprintf("http://127.0.0.1:%d", c.Admin))
	} else {
		args = append(args, "--mesh-addr", fmt.Sprintf("http://127.0.0.1:%d", c.Mesh))
	}
	p := framework.Start(nil, framework.Binary(), args...)
	ExpectWithOffset(1, p.Exit(time.Minute)).To(Equal(code), p.Output())
	return p.Output()
}

const nothing = "Summary:\n  Created: 0\n  Updated: 0\n  Deleted: 0\n"

var _ = Describe("the declarative tool", func() {
	It("takes a gateway to another control plane, whose gateway accepts the tokens of before", func() {
		from := framework.NewControlPlane("standalone").Start()
		f := framework.NewFixture(from)
		token := f.MustMint(from.HTTPS)
		Expect(f.Status(from.HTTP, token)).To(Equal(http.StatusOK))
		file := filepath.Join(GinkgoT().TempDir(), "gateway.yaml")
		tool(from, 0, "gateway", "dump", "--with-tokens", "-o", file)
		Expect(tool(from, 0, "gateway", "diff", file, "--with-tokens", "--non-zero-exit-code")).To(Equal(nothing))

		to := framework.NewControlPlane("standalone").Start()
		Expect(tool(to, 2, "gateway", "diff", file, "--with-tokens", "--non-zero-exit-code")).To(ContainSubstring("creating plugin oauth2 for service api"))
		tool(to, 0, "gateway", "sync", file, "--with-tokens")
		Expect(tool(to, 0, "gateway", "sync", file, "--with-tokens")).To(Equal(nothing))
		Eventually(func() int { return f.Status(to.HTTP, token) }, time.Minute, 50*time.Millisecond).Should(Equal(http.StatusOK))
		Expect(f.Status(to.HTTP, "")).To(Equal(http.StatusUnauthorized))

		again := filepath.Join(GinkgoT().TempDir(), "workspace.yaml")
		tool(to, 0, "gateway", "dump", "--with-tokens", "--workspace", "default", "-o", again)
		Expect(tool(to, 0, "gateway", "diff", again, "--with-tokens", "--workspace", "default", "--non-zero-exit-code")).To(Equal(nothing))
		Expect(tool(to, 0, "gateway", "sync", again, "--with-tokens", "--workspace", "default")).To(Equal(nothing))
		Expect(tool(to, 1, "gateway", "diff", file, "--with-tokens", "--workspace", "ws1")).To(ContainSubstring("workspace 'ws1' does not exist"))
		api := to.API() // what other tools ask before they write below the workspace
		Expect(api.Must(http.StatusOK, http.MethodGet, "/default/workspaces/default", nil).JSON()).To(HaveKeyWithValue("name", "default"))
		Expect(api.Must(http.StatusOK, http.MethodGet, "/default/services", nil).JSON()).To(Equal(api.Must(http.StatusOK, http.MethodGet, "/services", nil).JSON()))
		api.Must(http.StatusNotFound, http.MethodGet, "/ws1/workspaces/ws1", nil)

		Expect(tool(to, 0, "gateway", "reset", "--yes")).To(ContainSubstring("Deleted: 5"))
		Eventually(func() int { return f.Status(to.HTTP, token) }, time.Minute, 50*time.Millisecond).Should(Equal(http.StatusNotFound))
		Expect(f.Status(from.HTTP, token)).To(Equal(http.StatusOK))
	})

	It("takes meshes to another control plane", func() {
		from, to := framework.NewControlPlane("run").Start(), framework.NewControlPlane("run").Start()
		file := filepath.Join(GinkgoT().TempDir(), "meshes.yaml")
		shop := `{type: Mesh, name: shop, mtls: {enabledBackend: ca, backends: [{name: ca, type: builtin}]}}
---
{type: Timeout, mesh: shop, name: all, sources: [{match: {mesh.io/service: "*"}}], destinations: [{match: {mesh.io/service: "*"}}], conf: {connectTimeout: 5s}}
`
		Expect(os.WriteFile(file, []byte(shop), 0o600)).To(Succeed())
		Expect(tool(from, 0, "mesh", "sync", file)).To(And(ContainSubstring("creating Mesh shop"), ContainSubstring("deleting Timeout timeout-all-shop of mesh shop")))
		Expect(tool(from, 0, "mesh", "diff", file, "--non-zero-exit-code")).To(Equal(nothing))
		dump := filepath.Join(GinkgoT().TempDir(), "dump.yaml")
		tool(from, 0, "mesh", "dump", "-o", dump)
		tool(to, 0, "mesh", "sync", dump)
		Expect(tool(to, 0, "mesh", "diff", dump, "--non-zero-exit-code")).To(Equal(nothing))
		Expect(tool(to, 0, "mesh", "dump")).To(Equal(tool(from, 0, "mesh", "dump")))
	})
})
