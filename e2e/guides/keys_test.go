package guides_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations/keys.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "keys.md")
		for _, kind := range []string{"encryption", "control-plane-ca", "node-tokens", "dataplane-tokens", "records", "audit-log", "certificate"} {
			Expect(out["What there is"]).To(MatchRegexp(`(?m)^` + kind + ` +`))
		}
		Expect(out["Keys that sign tokens"]).To(And(ContainSubstring("Key 2 signs node tokens"), ContainSubstring("Key 1 of node-tokens is deleted."),
			ContainSubstring("Key 1 of dataplane-tokens is deleted.")))
		Expect(out["A stolen key"]).To(And(ContainSubstring("Key 3 signs the dataplane tokens of mesh default from now on. Withdrawn: key 2."),
			ContainSubstring("1 node (default.web-1) came with such tokens"), ContainSubstring("Key 3 signs node tokens from now on. Withdrawn: key 2."),
			MatchRegexp(`(?m)^dataplane-tokens +2 +default +compromised .* 1 node `), MatchRegexp(`(?m)^default.web-1 +sidecar +refused .* because it is compromised`),
			MatchRegexp(`2 nodes: 2 connected \(0 refuse configuration, 0 are behind\), 0 away, 0 away and refused$`)))
		Expect(out["The encryption key"]).To(And(ContainSubstring("A new key encrypts from now on"), ContainSubstring("The old keys leave the file")))
		Expect(out["The control plane's authority"]).To(And(ContainSubstring("Step 1 of 3"), ContainSubstring("Step 2 of 3"), ContainSubstring("Step 3 of 3"),
			MatchRegexp(`(?m)^control-plane-ca +[0-9a-f]{16} .* active `)))
		Expect(out["The key of the audit log"]).To(And(ContainSubstring("Key 2 signs audit events from now on."), ContainSubstring("published: 2"),
			ContainSubstring("Key 1 of audit-log is deleted."), ContainSubstring("key 2 signs the audit log"),
			ContainSubstring("Key 3 signs audit events from now on. Withdrawn: key 2."), HaveSuffix("published: 1"),
			MatchRegexp(`(?m)^audit-log +2 +- +compromised `), MatchRegexp(`(?m)^audit-log +3 +- +active `)))
	})
})
