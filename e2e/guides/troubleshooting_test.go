package guides_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations/troubleshooting.md", func() {
	It("shows commands that work, and their answers", func() {
		out := follow("docs", "operations", "troubleshooting.md")
		Expect(out["Look"]).To(And(HavePrefix(`{"message":"ready","conditions":[{"name":"store","state":"ok","since":"`), ContainSubstring(`meshgate_condition{condition="backups",state="ok"} 1
meshgate_condition{condition="certificates",state="ok"} 1
meshgate_condition{condition="clock",state="ok"} 1
meshgate_condition{condition="gateway_certificates",state="ok"} 1
meshgate_condition{condition="nodes",state="ok"} 1
meshgate_condition{condition="redis",state="ok"} 1
meshgate_condition{condition="revocations_wait",state="ok"} 1
meshgate_condition{condition="rotations",state="ok"} 1
meshgate_condition{condition="signing_keys",state="ok"} 1
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
