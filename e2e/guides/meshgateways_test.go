package guides_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("docs/mesh-gateways.md", func() {
	It("can be followed by copy and paste", func() {
		script, env := onFreePorts(framework.Guide("docs", "mesh-gateways.md"))
		dir, err := os.MkdirTemp("/tmp", "guide-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		Expect(os.Symlink(filepath.Join(framework.Root(), "bin"), filepath.Join(dir, "bin"))).To(Succeed())
		refused := filepath.Join(dir, "refused")
		p := framework.Start(append(env, "DIR="+dir, "REFUSED="+refused), "bash", "-c", meshPreamble+script)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		noted, err := os.ReadFile(refused)
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.TrimSpace(string(noted))).To(MatchRegexp(`^\d+ /$`), "nothing is refused but who has no certificate of a mesh")
		out := framework.Chapters(p.Output())

		Expect(out["From nothing"]).To(And(
			MatchRegexp(`(?s)hello from shop\n301 http://127\.0\.0\.1:\d+/shop/x\nhello from shop\n200\nhello from shop\n`),
			ContainSubstring(`"door-1"`)))
		Expect(out["Demand tokens"]).To(And(HavePrefix("201\n"), ContainSubstring(`"policyType": "MeshTokenAuth"`)))
		Expect(out["Call a gateway from another mesh"]).To(HaveSuffix("\nhello from shop"))
	})
})
