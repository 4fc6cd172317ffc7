package guides_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations/backup.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "backup.md")
		Expect(out["A backup"]).To(And(ContainSubstring("201\n"), ContainSubstring("The encryption key is NOT in it"),
			ContainSubstring("The encryption key is in it, wrapped"), ContainSubstring(`"sha256"`)))
		Expect(strings.Count(out["Restore"], "Revoke again what was revoked after")).To(Equal(2), out["Restore"])
		Expect(strings.TrimSpace(out["Restore"])).To(HaveSuffix("\n200"))
		Expect(out["Revocations answer 503 after a restore"]).To(MatchRegexp(`(?s)^(201\n){6}.*\n204\n.*` +
			`1 of 2 gateways were not seen since the control plane was restored or its Redis was replaced \(cp/default/gateway-1; start each with its run directory or, .*\?former=true.*\n` +
			`503\nrevocations_wait gateways_away\n200\n204$`))
	})
})
