package guides_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations/modes.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "modes.md")
		Expect(out["Look"]).To(And(HavePrefix("201\n"), ContainSubstring(`"status": 405`), ContainSubstring("On global control plane you can not modify dataplane resources")))
		Expect(out["The configuration in force"]).To(HavePrefix("global universal False sqlite 30s"))
	})
})
