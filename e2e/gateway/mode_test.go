package gateway_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a gateway with filter.mode extauthz", Ordered, func() {
	const patience = time.Minute
	var c *framework.ControlPlane
	var f *framework.Fixture
	var status int
	var log string

	BeforeAll(func() {
		status, log = framework.FreePorts(1)[0], filepath.Join(GinkgoT().TempDir(), "access.log")
		c = framework.NewControlPlane("standalone", "--filter-mode", "extauthz", "--access-log-path", log,
			"--status-listen", "127.0.0.1", "--status-port", strconv.Itoa(status)).Start()
		f = framework.NewFixture(c)
	})

	node := func() string { return f.Must(200, http.MethodGet, "/nodes", nil).Body }

	It("issues tokens, accepts them, and says whose they are, whatever clients claim", func() {
		r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", c.HTTP, framework.RoutePath),
			http.Header{"Authorization": {"Bearer " + f.MustMint(c.HTTPS)}, "X-Consumer-Username": {"mallory"}, "X_Consumer_Id": {"mallory"}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		Expect(r.Body).To(ContainSubstring(`"X-Consumer-Username":["alice"]`))
		Expect(r.Body).NotTo(ContainSubstring("mallory"))
	})

	It("refuses a token from the moment on at which its deletion is answered", func() {
		for range 20 {
			token := f.MustMint(c.HTTPS)
			Expect(f.Status(c.HTTP, token)).To(Equal(200))
			f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
			Expect(f.Status(c.HTTP, token)).To(Equal(401))
		}
	})

	It("is a node with one filter, and counts what it decides under the names of the module", func() {
		Eventually(node, patience, 50*time.Millisecond).Should(MatchRegexp(`"filters":\s*\{\s*"known":\s*1,\s*"linked":\s*1`))
		before, token := framework.Scrape(status).Sum("envoy_meshgate_allowed_total"), f.MustMint(c.HTTPS)
		for range 3 {
			Expect(f.Status(c.HTTP, token)).To(Equal(200))
		}
		page := framework.Scrape(status)
		Expect(page.Sum("envoy_meshgate_allowed_total")).To(Equal(before + 3))
		for _, name := range []string{"envoy_meshgate_cache_hits_total", "envoy_meshgate_cache_misses_total", "envoy_meshgate_issued_total", "envoy_meshgate_linked", "envoy_meshgate_leased"} {
			Expect(page.Sum(name)).To(BeNumerically(">", 0), name)
		}
		Expect(page.Sum("envoy_meshgate_refused_total", "reason", "token_revoked")).To(BeNumerically(">", 0))
	})

	It("says in the access log what became of a request", func() {
		Expect(f.Status(c.HTTP, "nobody-has-issued-this")).To(Equal(401))
		lines := func() string {
			text, err := os.ReadFile(log)
			Expect(err).NotTo(HaveOccurred())
			return string(text)
		}
		for _, want := range []string{`"decision":"refused"[^\n]*"reason":"token_unknown"`, `"consumer":"alice"[^\n]*"decision":"allowed"[^\n]*"reason":null`, `"decision":"issued"[^\n]*"route":"api"`} {
			Eventually(lines, patience, 100*time.Millisecond).Should(MatchRegexp(want))
		}
	})

	It("holds the beginning of bodies only: uploads pass by a token in a header, and long forms by none in them", func() {
		send := func(header http.Header, form string) *framework.Response {
			r, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s/x", c.HTTP, framework.RoutePath), header, form)
			Expect(err).NotTo(HaveOccurred())
			return r
		}
		token := f.MustMint(c.HTTPS)
		const form = "application/x-www-form-urlencoded"
		for size, want := range map[int]int{100: 200, 64 << 10: 200, 64<<10 + 1: 401, 64<<10 + 2: 401, 512 << 10: 401} {
			text := "access_token=" + token + "&a="
			Expect(send(http.Header{"Content-Type": {form}}, text+strings.Repeat("x", size-len(text))).Status).To(Equal(want), "a form of %d bytes", size)
		}
		for _, kind := range []string{form, "application/octet-stream"} {
			r := send(http.Header{"Content-Type": {kind}, "Authorization": {"Bearer " + token}}, strings.Repeat("x", 4<<20))
			Expect(r.Status).To(Equal(200), "an upload as %s: %.300s", kind, r.Body)
		}
	})

	It("refuses requests whose chain it cannot carry out, and says of which route and why", func() {
		f.Must(200, http.MethodPatch, "/plugins/"+f.Plugin, map[string]any{"config": map[string]any{"hide_credentials": true}})
		f.Converged()
		Expect(f.Status(c.HTTP, "any")).To(Equal(503))
		route := f.Must(200, http.MethodGet, "/routes/api", nil).JSON()["id"].(string)
		Expect(node()).To(And(ContainSubstring("route "+route), ContainSubstring("hides credentials in bodies")))
		f.Must(200, http.MethodPatch, "/plugins/"+f.Plugin, map[string]any{"config": map[string]any{"access_token_in_body": false}})
		f.Converged()
		r, err := f.Call(c.HTTP, f.MustMint(c.HTTPS))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200))
		Expect(strings.ToLower(r.Body)).NotTo(ContainSubstring("bearer"))
		Expect(node()).NotTo(ContainSubstring("hides credentials"))
	})
})

var _ = Describe("a gateway that asks an authorization service which somebody else runs", Ordered, func() {
	It("lets nobody pass while that is away, and is shown beside it", func() {
		c := framework.NewControlPlane("run").Start()
		f := framework.NewFixture(c)
		dir := GinkgoT().TempDir()
		socket, free := filepath.Join(dir, "a.sock"), framework.FreePorts(1)[0]
		f.WriteGatewayToken("service", filepath.Join(dir, "token"))
		settings := filepath.Join(dir, "settings.json")
		Expect(os.WriteFile(settings, fmt.Appendf(nil, `{"control_plane":{"address":"127.0.0.1:%d","ca_file":%q,"token_file":%q,"node":"cp/default/service"},"cache":{}}`,
			c.Data, c.CAFile(), filepath.Join(dir, "token")), 0o600)).To(Succeed())
		service := framework.Start(nil, framework.Binary(), "authz", "--listen", "unix://"+socket, "--settings", settings,
			"--status-listen", "127.0.0.1", "--status-port", strconv.Itoa(free))
		framework.WaitServing(fmt.Sprintf("127.0.0.1:%d", free), service.Output)
		g := framework.StartGateway(c, "g", "--filter-mode", "extauthz", "--filter-authz", "unix://"+socket)
		f.Converged()
		token := f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		Expect(f.Status(g.HTTP, "nobody-has-issued-this")).To(Equal(401))
		page := framework.Scrape(free)
		Expect(page.Sum("envoy_meshgate_allowed_total")).To(Equal(1.0))
		Expect(page.Sum("envoy_meshgate_refused_total", "reason", "token_unknown")).To(Equal(1.0))
		Eventually(func() string {
			return f.Must(200, http.MethodGet, "/nodes/cp%2Fdefault%2Fservice", nil).Body
		}, time.Minute, 50*time.Millisecond).Should(And(MatchRegexp(`"state":\s*"connected"`), MatchRegexp(`"linked":\s*1`)))
		service.Kill()
		Expect(f.Status(g.HTTP, token)).To(Equal(503))
		Expect(f.Status(g.HTTP, "")).To(Equal(503))
		Eventually(g.Output, time.Minute, 50*time.Millisecond).Should(MatchRegexp(`"decision":"refused"[^\n]*"reason":"filter_failed"`))
	})
})
