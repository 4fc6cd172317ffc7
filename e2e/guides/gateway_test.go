package guides_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("docs/gateway.md", func() {
	It("shows commands that work", func() {
		c := framework.NewControlPlane("run", "--store-type", "memory").Start()
		api := framework.NewFixture(c).API
		api.Must(201, "POST", "/consumers", map[string]any{"username": "nobody"})
		dir := GinkgoT().TempDir()
		api.WriteGatewayToken("gateway-2", filepath.Join(dir, "gateway-2.token"))
		script := strings.NewReplacer(":8001", ":"+strconv.Itoa(c.Admin), ":5681", ":"+strconv.Itoa(c.Mesh)).Replace(framework.Guide("docs", "gateway.md"))
		const preamble = `set -euo pipefail
cd "$DIR"
curl() { command curl -w '%{stderr}status %{http_code}\n' "$@"; }
`
		first := framework.Start([]string{"DIR=" + dir}, "bash", "-c", preamble+script)
		Expect(first.Exit(patience)).To(Equal(0), first.Output())
		statuses := regexp.MustCompile(`status (\d+)`).FindAllString(first.Output(), -1)
		n := strings.Count(script, "curl ")
		Expect(statuses[:n-3]).To(HaveEach("status 201"), first.Output())
		Expect(statuses[n-3:]).To(HaveEach("status 200"), first.Output())
		Expect(first.Output()).To(ContainSubstring("no gateway has connected"))
		jti := `[0-9a-f]{8}-[0-9a-f-]{27}`
		Expect(first.Output()).To(MatchRegexp(`(?m)^` + jti + `$`))

		_, tokens, _ := strings.Cut(script, "echo \"## Tokens of gateways\"")
		api.WriteGatewayToken("gateway-3", filepath.Join(dir, "gateway-2.token"))
		second := framework.Start([]string{"DIR=" + dir}, "bash", "-c", preamble+tokens)
		Expect(second.Exit(patience)).To(Equal(0), second.Output())
		Expect(second.Output()).To(MatchRegexp(`(?m)^`+jti+`,`+jti+`$`), "the one of before is still revoked")
	})
})

var _ = Describe("an explained request", func() {
	It("names the route and the target that a gateway has", func() {
		c := framework.NewControlPlane("standalone", "--store-type", "memory").Start()
		api := framework.NewFixture(c).API
		api.Must(201, "POST", "/services", map[string]any{"name": "shop", "url": "http://127.0.0.1:9"})
		api.Must(201, "POST", "/routes", map[string]any{"name": "invoices", "paths": []string{"/invoices"}, "service": map[string]any{"name": "shop"}})
		Eventually(func() string {
			p := framework.Start(nil, "curl", "-sS", "http://127.0.0.1:"+strconv.Itoa(c.Admin)+"/gateway-explain?host=a.test&path=/invoices/1")
			Expect(p.Exit(patience)).To(Equal(0), p.Output())
			return p.Output()
		}, patience).Should(And(ContainSubstring(`"verdict":"allowed"`), ContainSubstring(`"name":"invoices"`), ContainSubstring(`"address":"127.0.0.1:9"`)))
	})
})

var _ = Describe("docs/declarative.md", func() {
	It("shows a file that a gateway starts with", func() {
		data, err := os.ReadFile(filepath.Join(framework.Root(), "docs", "declarative.md"))
		Expect(err).NotTo(HaveOccurred())
		_, rest, _ := strings.Cut(string(data), "```yaml\n")
		text, _, found := strings.Cut(rest, "```")
		Expect(found).To(BeTrue())
		file := filepath.Join(GinkgoT().TempDir(), "gateway.yaml")
		Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		c := framework.NewControlPlane("standalone", "--gateway-declarative", file, "--store-type", "memory").Start()
		p := framework.Start(nil, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:"+strconv.Itoa(c.HTTP)+"/invoices")
		Expect(p.Exit(patience)).To(Equal(0))
		Expect(p.Output()).To(Equal("403"), "the plugin of the file asks for a key")
	})
})
