package guides_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("docs/operations/keys.md", func() {
	It("can be followed by copy and paste", func() {
		script, env := onFreePorts("docs", "operations", "keys.md")
		dir, err := os.MkdirTemp("/tmp", "guide-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		Expect(os.Symlink(filepath.Join(framework.Root(), "bin"), filepath.Join(dir, "bin"))).To(Succeed())
		p := framework.Start(append(env, "DIR="+dir), "bash", "-c", "set -eu\ncd \"$DIR\"\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"+script)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		out := framework.Chapters(p.Output())
		for _, kind := range []string{"encryption", "control-plane-ca", "node-tokens", "dataplane-tokens", "records", "certificate"} {
			Expect(out["What there is"]).To(MatchRegexp(`(?m)^` + kind + ` +`))
		}
		Expect(out["Keys that sign tokens"]).To(And(ContainSubstring("Key 2 signs node tokens"), ContainSubstring("Key 1 of node-tokens is deleted."),
			ContainSubstring("Key 1 of dataplane-tokens is deleted.")))
		Expect(out["The encryption key"]).To(And(ContainSubstring("A new key encrypts from now on"), ContainSubstring("The old keys leave the file")))
		Expect(out["The control plane's authority"]).To(And(ContainSubstring("Step 1 of 3"), ContainSubstring("Step 2 of 3"), ContainSubstring("Step 3 of 3"),
			MatchRegexp(`(?m)^control-plane-ca +[0-9a-f]{16} .* active `)))
	})
})
