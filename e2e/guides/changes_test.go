package guides_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations/changes.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "changes.md")
		Expect(out["Look"]).To(And(HavePrefix("201\n201\n201\n200\n204\n"), MatchRegexp(`12 .* deleted +consumer +default +ann`),
			MatchRegexp(`deleted +keyauth_credential .* with consumer ann`), ContainSubstring("/port 8080 -> 8081"),
			ContainSubstring(`"members":[{"path":"/port","old":8080,"new":8081}]`)))
		Expect(out["From elsewhere"]).To(And(ContainSubstring(`{"path":"/key","secret":true}`), ContainSubstring(`"action": "deleted"`)))
		Expect(out["By whom"]).To(And(MatchRegexp(`remote=127\.0\.0\.1:\d+\nactor=user:mesh-system:admin\n`),
			MatchRegexp(`actor=user:mesh-system:admin kind=service name=[0-9a-f-]{36} revision=11\b`)))
		for chapter, text := range out {
			Expect(strings.Contains(text, "a-secret-of-ann")).To(BeFalse(), chapter)
		}
	})
})
