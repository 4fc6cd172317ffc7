package guides_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations/nodes.md", func() {
	It("can be followed by copy and paste", func() {
		out := follow("docs", "operations", "nodes.md")
		Expect(out["Is everybody in step?"]).To(And(
			MatchRegexp(`(?m)^cp/default/edge +gateway +connected `), MatchRegexp(`(?m)^default\.web-1 +sidecar +connected `),
			HavePrefix("Nothing is wrong.\n\nNAME "), ContainSubstring("2 nodes: 2 connected"), ContainSubstring("exit code 0"), ContainSubstring(`"name": "default.web-1"`)))
		Expect(out["What does a proxy really have?"]).To(And(
			MatchRegexp(`(?m)^Listener +gateway:https:\d+ +[0-9a-f]{12} +same +acknowledged +-$`), ContainSubstring("in Envoy 0 differ, 0 are absent, 0 extra"),
			ContainSubstring("exit code 0"), ContainSubstring(`"name": "gateway:http:`),
			ContainSubstring("\n \"source\": \"control plane: this is what the proxy was sent\",\n \"acknowledged\": true,")))
		Expect(out["Who is away, and why?"]).To(And(
			MatchRegexp(`(?m)^refused +\S+Z +default\.web-1 +.*signing key`), MatchRegexp(`(?m)^default\.web-1 +sidecar +refused .*signing key`), ContainSubstring("exit code 2"),
			ContainSubstring(`meshgate_nodes{state="refused",type="sidecar"} 1`)))
		Expect(out["A node is gone for good"]).To(And(
			ContainSubstring(`"name": "cp/default/edge"`), ContainSubstring("200\n"), ContainSubstring("1 nodes: 0 connected"), ContainSubstring("exit code 2")))
	})
})
