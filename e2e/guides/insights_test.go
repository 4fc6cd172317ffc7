package guides_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations/insights.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "insights.md")
		Expect(out["Try it"]).To(Equal("201\n201\n201\n201"))
		Expect(out["A mesh"]).To(MatchRegexp(`"services": \{\s+"total": 2,\s+"internal": 1,\s+"external": 1`))
		Expect(out["A mesh"]).To(MatchRegexp(`"dataplanes": \{\s+"total": 2,\s+"offline": 2\s+\}`))
		Expect(out["A service"]).To(ContainSubstring(`"addressPort": "web.mesh:80"`))
		Expect(out["A service"]).To(ContainSubstring(`"status": "not_available"`))
		Expect(out["Zones"]).To(MatchJSON(`[{"name":"default","url":"","active":true}]`))
		Expect(out["What a proxy or zone reports"]).To(ContainSubstring(`"type": "ZoneOverview"`))
	})
})
