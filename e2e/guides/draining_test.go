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

var _ = Describe("docs/draining.md", func() {
	It("shows commands that work, and their answers", func() {
		status := strconv.Itoa(framework.FreePorts(1)[0])
		c := framework.NewControlPlane("standalone", "--status-port", status, "--drain-delay", "5s", "--drain-timeout", "30s")
		script := strings.NewReplacer(":8002", ":"+status, ":8000", ":"+strconv.Itoa(c.HTTP)).Replace(framework.Guide("docs", "draining.md"))
		dir := GinkgoT().TempDir()
		begin := "set -euo pipefail\ncd \"$DIR\"\n" + framework.Binary() + " " + strings.Join(c.Arguments(), " ") + " >gateway.log 2>&1 & echo $! >gateway.pid\n" +
			"until curl -sf http://127.0.0.1:" + status + "/ready >answer; do sleep 0.1; done\n"
		p := framework.Start([]string{"DIR=" + dir}, "bash", "-c", begin+script)
		Expect(p.Exit(patience)).To(Equal(0), func() string {
			log, _ := os.ReadFile(filepath.Join(dir, "gateway.log"))
			return p.Output() + string(log)
		})
		Expect(p.Output()).To(MatchRegexp(`\{"message":"ready","conditions":\[\{"name":"control_plane","state":"ok".*\]\} 200\n\{"message":"live"\} 200\n`))
		Expect(p.Output()).To(ContainSubstring("\"message\":\"draining\"\n404\nenvoy is draining\" after=5s at_most=30s\n"))
		Expect(framework.Envoys(c.StateDir)).To(BeEmpty())
	})
})
