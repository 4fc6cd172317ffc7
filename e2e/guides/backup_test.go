package guides_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("docs/operations/backup.md", func() {
	It("can be followed by copy and paste", func() {
		script, env := onFreePorts("docs", "operations", "backup.md")
		dir, err := os.MkdirTemp("/tmp", "guide-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		Expect(os.Symlink(filepath.Join(framework.Root(), "bin"), filepath.Join(dir, "bin"))).To(Succeed())
		p := framework.Start(append(env, "DIR="+dir), "bash", "-c", "set -eu\ncd \"$DIR\"\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"+script)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		out := framework.Chapters(p.Output())
		Expect(out["A backup"]).To(And(ContainSubstring("201\n"), ContainSubstring("The encryption key is NOT in it"),
			ContainSubstring("The encryption key is in it, wrapped"), ContainSubstring(`"sha256"`)))
		Expect(strings.Count(out["Restore"], "Revoke again what was revoked after")).To(Equal(2), out["Restore"])
		Expect(out["Restore"]).To(HaveSuffix("\n200"))
	})
})
