package guides_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations/standby.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "standby.md")
		Expect(out["Try it"]).To(And(HavePrefix("another meshgate has the state directory state; standing by\n"), HaveSuffix("\nready")))
	})
})
