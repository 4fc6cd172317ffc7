package groups_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// tool runs the declarative tool and returns what it prints.
func tool(code int, args ...string) string {
	GinkgoHelper()
	p := framework.Start(nil, framework.Binary(), append([]string{"gateway"}, args...)...)
	Expect(p.Exit(60*time.Second)).To(Equal(code), p.Output)
	return p.Output()
}

// at are the flags that name a control plane of the cloud API at an address.
func at(addr, token, plane string) []string {
	return []string{"--cloud-addr", addr, "--cloud-token", token, "--cloud-control-plane-name", plane}
}

// balancer sends requests to two gateways. As many percent as moved go to the new one.
type balancer struct {
	old, new     int
	n, moved     atomic.Int64
	toOld, toNew atomic.Int64
}

func (b *balancer) url() string {
	port, count := b.old, &b.toOld
	if b.n.Add(1)%100 < b.moved.Load() {
		port, count = b.new, &b.toNew
	}
	count.Add(1)
	return fmt.Sprintf("http://127.0.0.1:%d%s/load", port, framework.RoutePath)
}

// observed is a way to the cloud API on which requests that write are counted.
func (c *cloud) observed() (addr string, writes *atomic.Int64) {
	writes = &atomic.Int64{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", c.c.Cloud)})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	DeferCleanup(s.Close)
	return s.URL, writes
}

// Source: requirement "Migration rules".
var _ = Describe("the migration of a gateway of one's own into a group", func() {
	const unchanged = "Summary:\n  Created: 0\n  Updated: 0\n  Deleted: 0\n"

	It("refuses no request, and the new gateways accept the tokens of before", func() {
		By("the old gateway, under load")
		from := framework.NewControlPlane("run", "--store-type", "sqlite").Start()
		old := framework.StartGateway(from, "old")
		f := framework.NewFixture(from)
		token := f.MustMint(old.HTTPS)
		b := &balancer{old: old.HTTP}
		load := framework.StartMoving(b.url, http.Header{"Authorization": {"Bearer " + token}}, 4)
		load.Served(50)

		By("the group and its member")
		c := newCloud(framework.NewControlPlane("run", "--store-type", "sqlite").Start())
		team, member := c.plane("team", ofMany), c.plane("member", hybrid)
		c.do(204, "POST", group(team)+"/group-memberships/add", members(member))

		By("the dump and the sync")
		addr, writes := c.observed()
		into := at(addr, accessToken(c.c, "team-a", "--control-plane", "member"), "member")
		self := []string{"--gateway-addr", fmt.Sprintf("http://127.0.0.1:%d", from.Admin)}
		dump := func(name string) string {
			GinkgoHelper()
			file := filepath.Join(GinkgoT().TempDir(), name)
			tool(0, append(self, "dump", "--with-tokens", "-o", file)...)
			return file
		}
		file := dump("first.yaml")
		out := tool(1, append(at(addr, c.token, "team"), "sync", file, "--with-tokens")...)
		Expect(out).To(ContainSubstring("control plane 'team' is a group: configuration cannot be synced to a group"))
		Expect(tool(0, append(into, "diff", file, "--with-tokens")...)).To(ContainSubstring("creating plugin oauth2 for service api"))
		Expect(writes.Load()).To(BeZero(), "writes of a refused sync and of a preview")
		tool(0, append(into, "sync", file, "--with-tokens")...)
		Expect(writes.Load()).NotTo(BeZero())
		Expect(tool(0, append(into, "diff", file, "--with-tokens", "--non-zero-exit-code")...)).To(Equal(unchanged))

		By("what has changed in the meantime")
		late := f.MustMint(old.HTTPS)
		f.Must(201, http.MethodPost, "/services/api/routes", map[string]any{"name": "late", "paths": []string{"/late"}})
		out = tool(0, append(into, "sync", dump("second.yaml"), "--with-tokens")...)
		Expect(out).To(And(ContainSubstring("creating route late"), HaveSuffix("Created: 2\n  Updated: 0\n  Deleted: 0\n")))

		By("new gateways in the group")
		gw := c.gateway("new", "team")
		gw.Restart()
		b.new = gw.HTTP
		for _, path := range []string{framework.RoutePath, "/late"} {
			for _, t := range []string{token, late} {
				Eventually(func() int { return c.status(gw, path[1:], t) }, 20*time.Second, 50*time.Millisecond).Should(Equal(http.StatusOK), path)
			}
			Expect(c.status(gw, path[1:], "")).To(Equal(http.StatusUnauthorized))
		}

		By("the traffic")
		for _, share := range []int64{10, 50, 100} {
			b.moved.Store(share)
			load.Served(200)
		}
		Expect(b.toNew.Load()).To(BeNumerically(">=", 200))
		served := b.toOld.Load()

		By("the end of the old one")
		old.Stop()
		from.Stop()
		load.Served(200)
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
		Expect(b.toOld.Load()).To(Equal(served), "requests to the old gateway after the move")
		Expect(c.minted(gw, "api", framework.ClientID, framework.ClientSecret)).To(HaveLen(32))
		AddReportEntry("requests", fmt.Sprintf("%d, of which %d at the new gateway", total, b.toNew.Load()))
	})
})
