package guides_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("docs/gateway.md", func() {
	It("shows commands that work", func() {
		c := framework.NewControlPlane("run", "--store-type", "memory").Start()
		framework.NewFixture(c).Must(201, "POST", "/consumers", map[string]any{"username": "nobody"})
		script := strings.NewReplacer(":8001", ":"+strconv.Itoa(c.Admin), ":5681", ":"+strconv.Itoa(c.Mesh)).Replace(framework.Guide("docs", "gateway.md"))
		calls := strings.Count(script, "\ncurl ")
		p := framework.Start([]string{"JTI=00000000-0000-4000-8000-000000000000"}, "bash", "-c", "set -euo pipefail\ncurl() { command curl -w '\\n%{http_code}\\n' \"$@\"; }\n"+script)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		Expect(calls).To(BeNumerically(">", 2))
		Expect(strings.Count(p.Output(), "\n201\n")).To(Equal(calls), p.Output())
	})
})

var _ = Describe("docs/declarative.md", func() {
	It("shows a file that a gateway starts with", func() {
		data, err := os.ReadFile(filepath.Join(framework.Root(), "docs", "declarative.md"))
		Expect(err).NotTo(HaveOccurred())
		_, rest, _ := strings.Cut(string(data), "```yaml\n")
		text, _, found := strings.Cut(rest, "```")
		Expect(found).To(BeTrue())
		file := filepath.Join(GinkgoT().TempDir(), "gateway.yaml")
		Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		c := framework.NewControlPlane("standalone", "--gateway-declarative", file, "--store-type", "memory").Start()
		p := framework.Start(nil, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:"+strconv.Itoa(c.HTTP)+"/invoices")
		Expect(p.Exit(patience)).To(Equal(0))
		Expect(p.Output()).To(Equal("403"), "the plugin of the file asks for a key")
	})
})
