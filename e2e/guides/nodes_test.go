package guides_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("docs/operations/nodes.md", func() {
	It("can be followed by copy and paste", func() {
		script, env := onFreePorts("docs", "operations", "nodes.md")
		dir, err := os.MkdirTemp("/tmp", "guide-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		for _, name := range []string{"bin", ".tools"} {
			Expect(os.Symlink(filepath.Join(framework.Root(), name), filepath.Join(dir, name))).To(Succeed())
		}
		p := framework.Start(append(env, "DIR="+dir), "bash", "-c", "set -eu\ncd \"$DIR\"\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"+script)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		out := framework.Chapters(p.Output())
		Expect(out["Is everybody in step?"]).To(And(
			MatchRegexp(`(?m)^cp/default/edge +gateway +connected `), MatchRegexp(`(?m)^default\.web-1 +sidecar +connected `),
			ContainSubstring("2 nodes: 2 connected"), ContainSubstring("exit code 0"), ContainSubstring(`"name": "default.web-1"`)))
		Expect(out["Who is away, and why?"]).To(And(
			MatchRegexp(`(?m)^default\.web-1 +sidecar +refused .*signing key`), ContainSubstring("exit code 2"),
			ContainSubstring(`meshgate_nodes{state="refused",type="sidecar"} 1`)))
		Expect(out["A node is gone for good"]).To(And(
			ContainSubstring(`"name": "cp/default/edge"`), ContainSubstring("200\n"), ContainSubstring("1 nodes: 0 connected"), ContainSubstring("exit code 2")))
	})
})
