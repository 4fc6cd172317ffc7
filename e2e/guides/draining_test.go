package guides_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/draining.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "draining.md")
		Expect(out["Is it ready?"]).To(MatchRegexp(`\{"message":"ready","conditions":\[\{"name":"control_plane","state":"ok".*\]\} 200\n\{"message":"live"\} 200$`))
		Expect(out["Leaving"]).To(Equal("\"message\":\"draining\"\n404\nenvoy is draining\" after=5s at_most=30s"))
		Expect(out["Coming back"]).To(Equal("404"))
	})
})
