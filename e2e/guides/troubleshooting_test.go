package guides_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("docs/operations/troubleshooting.md", func() {
	It("shows commands that work, and their answers", func() {
		script, env := onFreePorts("docs", "operations", "troubleshooting.md")
		dir, err := os.MkdirTemp("/tmp", "guide-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		Expect(os.Symlink(filepath.Join(framework.Root(), "bin"), filepath.Join(dir, "bin"))).To(Succeed())
		p := framework.Start(append(env, "DIR="+dir), "bash", "-c", "set -eu\ncd \"$DIR\"\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"+script)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		out := framework.Chapters(p.Output())
		Expect(out["Look"]).To(And(HavePrefix(`{"message":"ready","conditions":[{"name":"store","state":"ok","since":"`), ContainSubstring(`meshgate_condition{condition="certificates",state="ok"} 1
meshgate_condition{condition="clock",state="ok"} 1
meshgate_condition{condition="redis",state="ok"} 1
meshgate_condition{condition="store",state="ok"} 1
0`)))
		Expect(out["A proxy does not find its control plane"]).To(MatchRegexp(`(?s)^reason=unknown_authority .* --ca-cert-file other.pem .*
reason=wrong_name .* is for localhost, 127.0.0.1, ::1, not for 127.0.0.2: start the control plane with --data-plane-names 127.0.0.2 .*
reason=no_tls .*
reason=refused text="nothing listens at --cp-address https://127.0.0.1:1: .*
reason=unknown_host text="the name in --cp-address https://nowhere.invalid:\d+ is not known.*
meshgate: the token file empty is empty: .*
meshgate: what the token file garbage holds is not a token: .*
(?i)sha256 Fingerprint=`))
	})
})
