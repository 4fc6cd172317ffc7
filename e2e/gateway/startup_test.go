package gateway_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a start that cannot work", func() {
	// begin runs the command and returns its one line.
	begin := func(env []string, c *framework.ControlPlane) string {
		p := framework.Start(env, framework.Binary(), c.Arguments()...)
		Expect(p.Exit(time.Minute)).To(Equal(2), p.Output())
		lines := strings.Split(strings.TrimSpace(p.Output()), "\n")
		Expect(lines).To(HaveLen(1), p.Output())
		return lines[0]
	}

	It("names the setting of a port in use", func() {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(ln.Close)
		for setting, set := range map[string]func(*framework.ControlPlane, int){
			"admin.port":       func(c *framework.ControlPlane, p int) { c.Admin = p },
			"dataPlane.port":   func(c *framework.ControlPlane, p int) { c.Data = p },
			"gateway.httpPort": func(c *framework.ControlPlane, p int) { c.HTTP = p },
		} {
			c := framework.NewControlPlane("standalone")
			set(c, ln.Addr().(*net.TCPAddr).Port)
			Expect(begin(nil, c)).To(And(ContainSubstring("in use"), ContainSubstring(setting)))
			entries, _ := os.ReadDir(c.StateDir)
			Expect(entries).To(BeEmpty(), "nothing is half started")
		}
	})

	It("names both owners of a port", func() {
		c := framework.NewControlPlane("standalone")
		c.Mesh = c.Admin
		Expect(begin(nil, c)).To(And(ContainSubstring("mesh.port"), ContainSubstring("admin.port")))
	})

	It("says how to get an Envoy", func() {
		c := framework.NewControlPlane("standalone")
		Expect(begin([]string{"ENVOY_PATH=/nonexistent/envoy"}, c)).To(ContainSubstring("/nonexistent/envoy"))
	})

	It("says that the state directory cannot be used", func() {
		c := framework.NewControlPlane("run")
		file := filepath.Join(c.StateDir, "file")
		Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
		c.StateDir = filepath.Join(file, "below")
		Expect(begin(nil, c)).To(And(ContainSubstring("state directory"), ContainSubstring("MESHGATE_STATE_DIR")))
	})

	It("keeps a second process off the same state directory", func() {
		first := framework.NewControlPlane("run").Start()
		second := framework.NewControlPlane("run")
		second.StateDir = first.StateDir
		Expect(begin(nil, second)).To(ContainSubstring("in use by another meshgate"))
	})
})
