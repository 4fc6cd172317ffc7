package keys_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// secrets is how many keys of consumers are stored: several transactions of a rotation.
const secrets = 350

// store creates a consumer with that many keys.
func store(api *framework.API) {
	api.Must(201, http.MethodPost, "/consumers", map[string]any{"username": "keeper"})
	for i := range secrets {
		api.Must(201, http.MethodPost, "/consumers/keeper/key-auth", map[string]any{"key": secret(i)})
	}
}

func secret(i int) string { return fmt.Sprintf("a-secret-that-is-number-%d", i) }

// readable demands that every key can be read, and is found by its value: it is taken.
func readable(api *framework.API) {
	for i := 0; i < secrets; i += 7 {
		r := api.Admin(http.MethodPost, "/consumers/keeper/key-auth", map[string]any{"key": secret(i)})
		ExpectWithOffset(1, r.Status).To(Equal(http.StatusConflict), r.Body)
	}
	r := api.Must(200, http.MethodGet, "/consumers/keeper/key-auth?size=1000", nil)
	ExpectWithOffset(1, r.JSON()["data"]).To(HaveLen(secrets))
}

// rows waits until nothing is left under the older keys, of which there are n.
func rows(c *framework.ControlPlane, n int) {
	EventuallyWithOffset(1, func() (uses []string) {
		for _, k := range listed(c, "encryption")[1:] {
			uses = append(uses, k.InUse)
		}
		return uses
	}, patience).Should(And(HaveLen(n), HaveEach("0 rows")))
}

var _ = Describe("the encryption key", func() {
	It("changes under load without a refused request, and the old one can be forgotten", func() {
		c := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		store(f.API)
		load := framework.StartLoad(f, g.HTTP, f.MustMint(g.HTTPS), 2)
		load.Served(50)
		first := listed(c, "encryption")
		Expect(first).To(HaveLen(1))
		Expect(run(c, "keys", "rotate", "encryption")).To(ContainSubstring("A new key encrypts from now on"))
		for range 10 {
			Expect(fresh(f, g)).To(BeEmpty())
		}
		rows(c, 1)
		now := listed(c, "encryption")
		Expect(now[0].Name).NotTo(Equal(first[0].Name))
		Expect(now[1].Name).To(Equal(first[0].Name))
		run(c, "keys", "rotate", "encryption", "--forget-old")
		Eventually(func() []key { return listed(c, "encryption") }, patience).Should(HaveLen(1))
		load.Served(100)
		readable(f.API)
		served(load)
		c.Stop()
		c.Start()
		readable(f.API)
		Eventually(func() string { return fresh(f, g) }, patience).Should(BeEmpty())
	})

	It("is changed to the end by the next start after the control plane was killed in the middle", func() {
		c := framework.NewControlPlane("run").Start()
		api := c.API()
		store(api)
		file := filepath.Join(c.StateDir, "encryption.key")
		content := func() string {
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			return string(text)
		}
		for round := range 4 {
			before := content()
			rotating := framework.Start(nil, framework.Binary(), asking(c, "keys", "rotate", "encryption")...)
			// The file is replaced first; what comes after it takes a few milliseconds,
			// somewhere in which the control plane dies.
			Eventually(content, patience, "1ms").ShouldNot(Equal(before))
			c.Kill()
			_ = rotating.Exit(patience) // it may have heard the answer, or not
			Expect(content()).NotTo(Equal(before))
			c.Start()
			readable(api)
			rows(c, round+1)
		}
		readable(api)
	})
})
