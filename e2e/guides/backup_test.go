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
		Expect(out["Restore"]).To(HaveSuffix("\n200"))
	})
})
