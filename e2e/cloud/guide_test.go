package cloud_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// shown are the commands of the story in docs/cloud.md, and what the page says that they print.
func shown() (script, printed string) {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(framework.Root(), "docs", "cloud.md"))
	Expect(err).NotTo(HaveOccurred())
	_, story, _ := strings.Cut(string(page), "### See it\n")
	story, _, _ = strings.Cut(story, "\n### Portals\n")
	for i, block := range strings.Split(story, "```") {
		kind, text, _ := strings.Cut(block, "\n")
		switch {
		case i%2 == 0:
		case kind == "sh":
			script += text
		case kind == "":
			printed += text
		}
	}
	return script, printed
}

var _ = Describe("docs/cloud.md", func() {
	It("can be followed by copy and paste, and prints what it shows", func() {
		c := framework.NewControlPlane("run", toReceivers...).Start()
		siem, own := newReceiver(), framework.FreePorts(1)[0]
		script, printed := shown()
		ports := strings.NewReplacer("9443", strconv.Itoa(own),
			// The first receiver of the page has a certificate that is trusted.
			`"log_format":"json"`, `"log_format":"json","skip_ssl_verification":true`)
		p := framework.Start([]string{
			fmt.Sprintf("CLOUD=http://localhost:%d", c.Cloud), "SIEM=" + siem.url(), "TOKEN=" + command(c, "token", "create", "--name", "docs", "--role", "admin"), "DIR=" + GinkgoT().TempDir(),
		}, "bash", "-c", "set -euo pipefail\ncd \"$DIR\"\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"+ports.Replace(script))
		Expect(p.Exit(3*time.Minute)).To(Equal(0), p.Output)
		Expect(p.Output()).To(Equal(ports.Replace(printed)))
		// Later ones go to a receiver that the page starts.
		Expect(outcomes(slices.Concat(siem.arrived()...))).To(Equal([]string{"SUCCESS", "INVALID_PASSWORD", "TEST"}))
	})
})
