package guides_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("docs/operations/access-log.md", func() {
	It("shows commands that find a refusal in the journal of a service", func() {
		status := strconv.Itoa(framework.FreePorts(1)[0])
		c := framework.NewControlPlane("standalone", "--status-port", status).Start()
		f := framework.NewFixture(c)
		Expect(f.Status(c.HTTP, f.MustMint(c.HTTPS))).To(Equal(http.StatusOK))
		refused, err := f.Call(c.HTTP, "no-such-token")
		Expect(err).NotTo(HaveOccurred())
		id := refused.Header.Get("X-Request-Id")
		Expect(id).NotTo(BeEmpty())
		Eventually(c.Output, patience, "50ms").Should(ContainSubstring(id))
		f.Upstream.Close()
		Expect(f.Status(c.HTTP, f.MustMint(c.HTTPS))).To(Equal(http.StatusServiceUnavailable))
		Eventually(c.Output, patience, "50ms").Should(MatchRegexp(`"status":503`))

		// A journal has what a service says on both of its outputs.
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "journal"), []byte(c.Output()), 0o600)).To(Succeed())
		script := strings.ReplaceAll(framework.Guide("docs", "operations", "access-log.md"), ":8002", ":"+status)
		p := framework.Start([]string{"DIR=" + dir, "ID=" + id}, "bash", "-c",
			"set -euo pipefail\ncd \"$DIR\"\njournalctl() { [ \"$*\" = '-u meshgate -o cat --since -1h' ] && cat journal; }\n"+script)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		out := framework.Chapters(p.Output())["At night"]
		Expect(out).To(ContainSubstring(`"reason": "token_unknown"`), "by its id")
		Expect(out).To(MatchRegexp(`(?m)^\S+Z\t401\ttoken_unknown\tapi\t\t/api/x$`), "the last refusals")
		Expect(out).To(MatchRegexp(`(?m)^ +1 token_unknown\tapi$`), "how often")
		Expect(out).To(MatchRegexp(`(?m)^\S+Z\t503\t\S*UF\S*\tupstream_\S+\tapi\t`), "what failed")
		Expect(out).To(MatchRegexp(`(?m)^envoy_meshgate_refused_total\{.*reason="token_unknown".*\} 1$`))
	})
})
