package guides_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// follow runs the commands of a page in a directory of their own, see [session], and
// returns what was printed under each heading.
func follow(page ...string) map[string]string {
	GinkgoHelper()
	dir := checkout()
	return session(dir, framework.Guide(page...), "PREFIX="+filepath.Join(dir, "opt"))
}

// checkout is a directory that looks like a checkout after make build.
func checkout() string {
	GinkgoHelper()
	dir, err := os.MkdirTemp("/tmp", "guide-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	for _, link := range []string{"bin", ".tools"} {
		Expect(os.Symlink(filepath.Join(framework.Root(), link), filepath.Join(dir, link))).To(Succeed())
	}
	return dir
}

// session is what a guide printed under each heading, see [perform].
func session(dir, guide string, more ...string) map[string]string {
	GinkgoHelper()
	return framework.Chapters(perform(dir, guide, more...))
}

// perform runs the commands of a guide in a directory, on ports of its own, and returns what
// they printed. It ends what they leave behind if they break off.
func perform(dir, guide string, more ...string) string {
	GinkgoHelper()
	script, env := onFreePorts(guide)
	p := framework.Start(append(append(env, "DIR="+dir), more...), "bash", "-c",
		"set -eu\ncd \"$DIR\"\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"+script)
	Expect(p.Exit(patience)).To(Equal(0), func() string {
		all := p.Output()
		for l, text := range logsIn(dir) {
			all += "\n" + l + "\n" + text
		}
		return all
	})
	expectSoundLogs(dir)
	return p.Output()
}

// logsIn are the logs of the programs that a guide has started in a directory.
func logsIn(dir string) map[string]string {
	all := map[string]string{}
	for _, below := range []string{"*.log", filepath.Join(".state-*", "*.log")} {
		names, err := filepath.Glob(filepath.Join(dir, below))
		Expect(err).NotTo(HaveOccurred())
		for _, name := range names {
			text, err := os.ReadFile(name)
			Expect(err).NotTo(HaveOccurred())
			all[name] = string(text)
		}
	}
	return all
}

// expectSoundLogs fails the spec if a program that a guide has started tells of a panic or a
// crash. The framework sees only what is printed to the terminal of the guide.
func expectSoundLogs(dir string) {
	GinkgoHelper()
	for name, text := range logsIn(dir) {
		Expect(framework.Unsound(text)).To(BeEmpty(), name)
	}
}

var _ = Describe("docs/operations/install.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "install.md")
		Expect(out["Files"]).To(HavePrefix("meshgate "))
		Expect(out["A state directory"]).To(MatchRegexp(`(?m)^stateDir\s+state\s+file`))
		Expect(strings.Count(out["The first start"], `{"message":"no Route matched with those values"} 404`)).To(Equal(2), out["The first start"])
		Expect(out["The first start"]).To(MatchRegexp(`"message":"ready",.* 200\n`))
	})
})

var _ = Describe("docs/operations/upgrade.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "upgrade.md")
		Expect(out["Before"]).To(ContainSubstring("201\n"))
		Expect(out["The control plane"]).To(And(HavePrefix("meshgate "), ContainSubstring("200\nNothing is wrong.\n"), ContainSubstring("0 nodes: 0 connected")))
		Expect(out["The way back"]).To(And(ContainSubstring("Revoke again what was revoked after"), MatchRegexp(`200\n?$`)))
	})
})
