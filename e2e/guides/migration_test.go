package guides_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// Source: requirement "Migration rules".
var _ = Describe("docs/migration.md", func() {
	It("can be followed by copy and paste, and prints what it shows", func() {
		page := []string{"docs", "migration.md"}
		// No load balancer is there that would have to notice that a gateway leaves.
		out := session(checkout(), framework.Guide(page...), "MESHGATE_DRAIN_DELAY=0s")
		for _, title := range []string{"Practise it", "From a gateway of your own", "From a control plane in the cloud"} {
			Expect(framework.Transcript(page...)[title]).NotTo(BeEmpty(), "what the page shows under %q", title)
		}
		expectShown(out, page...)
	})
})
