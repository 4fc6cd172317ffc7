package groups_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// source is what is migrated, and goes on while it is.
type source struct {
	// flags name it to the declarative tool.
	flags   []string
	gateway *framework.Gateway
	// The application that it has for its route at [framework.RoutePath].
	client, secret string
	mint           func() (token string)
	// publish gives its service one more route.
	publish func(name, path string)
	// own makes of its file one for another control plane. sync tries to bring it to the member.
	own func(file string, sync func(code int) string)
	// end decommissions it.
	end func()
}

// unchanged is what a preview without differences prints.
const unchanged = "Summary:\n  Created: 0\n  Updated: 0\n  Deleted: 0\n"

// migration moves a source into a member of a group. Traffic goes to the source from the start.
type migration struct {
	source
	c            *cloud
	team, member string
	b            *balancer
	load         *framework.Load
	// tokens are those that the source has issued.
	tokens []string
	// addr is where the tool finds the control planes, and writes counts what it writes there.
	addr   string
	writes *atomic.Int64
	// into are the flags that name the member.
	into []string
}

// begin puts the source under load, and makes a group with a member.
func begin(c *cloud, from source) *migration {
	GinkgoHelper()
	m := &migration{source: from, c: c, tokens: []string{from.mint()}, b: &balancer{old: from.gateway.HTTP}}
	By("the old gateway, under load")
	m.load = framework.StartMoving(m.b.url, http.Header{"Authorization": {"Bearer " + m.tokens[0]}}, 4)
	m.load.Served(50)
	By("the group and its member")
	m.team, m.member = c.plane("team", ofMany), c.plane("member", hybrid)
	c.do(204, "POST", group(m.team)+"/group-memberships/add", members(m.member))
	m.addr, m.writes = c.observed()
	m.into = at(m.addr, accessToken(c.c, "team-a", "--control-plane", "member"), "member")
	return m
}

// dump writes what the source has into a file that can be brought to the member.
func (m *migration) dump(name string) (file string) {
	GinkgoHelper()
	file = filepath.Join(GinkgoT().TempDir(), name)
	tool(0, slices.Concat(m.flags, []string{"dump", "--with-tokens", "-o", file})...)
	m.own(file, func(code int) string { return m.bring(code, "sync", file) })
	return file
}

// bring runs the tool with a file for the member.
func (m *migration) bring(code int, verb, file string, more ...string) string {
	GinkgoHelper()
	return tool(code, slices.Concat(m.into, []string{verb, file, "--with-tokens"}, more)...)
}

// copy brings what the source has to the member, and then what has changed in the meantime.
func (m *migration) copy() {
	GinkgoHelper()
	By("the dump and the sync")
	file := m.dump("first.yaml")
	out := tool(1, append(at(m.addr, m.c.token, "team"), "sync", file, "--with-tokens")...)
	Expect(out).To(ContainSubstring("control plane 'team' is a group: configuration cannot be synced to a group"))
	Expect(m.bring(0, "diff", file)).To(ContainSubstring("creating plugin oauth2 for service api"))
	Expect(m.writes.Load()).To(BeZero(), "writes of a refused sync and of a preview")
	m.bring(0, "sync", file)
	Expect(m.writes.Load()).NotTo(BeZero())
	Expect(m.bring(0, "diff", file, "--non-zero-exit-code")).To(Equal(unchanged))

	By("what has changed in the meantime")
	m.tokens = append(m.tokens, m.mint())
	m.publish("late", "/late")
	out = m.bring(0, "sync", m.dump("second.yaml"))
	Expect(out).To(And(ContainSubstring("creating route late"), HaveSuffix("Created: 2\n  Updated: 0\n  Deleted: 0\n")))
}

// expectServed waits until a gateway has all routes. They accept all tokens that the source has issued.
func (m *migration) expectServed(gw *framework.Gateway) {
	GinkgoHelper()
	for _, path := range []string{framework.RoutePath, "/late"} {
		for _, t := range m.tokens {
			Eventually(func() int { return m.c.status(gw, path[1:], t) }, patience, 50*time.Millisecond).Should(Equal(http.StatusOK), path)
		}
		Expect(m.c.status(gw, path[1:], "")).To(Equal(http.StatusUnauthorized))
	}
}

// finish moves the traffic to a new gateway in the group and ends the source.
func (m *migration) finish() {
	GinkgoHelper()
	By("new gateways in the group")
	gw := m.c.gateway("new", "team")
	gw.Restart()
	m.b.new = gw.HTTP
	m.expectServed(gw)
	By("the traffic")
	for _, share := range []int64{10, 50, 100} {
		m.b.moved.Store(share)
		m.load.Served(200)
	}
	Expect(m.b.toNew.Load()).To(BeNumerically(">=", 200))
	served := m.b.toOld.Load()

	By("the end of the old one")
	m.end()
	m.load.Served(200)
	total, failures := m.load.Stop()
	Expect(failures).To(BeEmpty(), "of %d requests", total)
	Expect(m.b.toOld.Load()).To(Equal(served), "requests to the old gateway after the move")
	m.expectServed(gw)
	Expect(m.c.minted(gw, "api", m.client, m.secret)).To(HaveLen(32))
	AddReportEntry("requests", fmt.Sprintf("%d, of which %d at the new gateway", total, m.b.toNew.Load()))
}

// Source: requirement "Migration rules", 4.
var _ = Describe("the migration of a gateway of one's own into a group", func() {
	It("refuses no request, and the new gateways accept the tokens of before", func() {
		from := framework.NewControlPlane("run", "--store-type", "sqlite").Start()
		old := framework.StartGateway(from, "old")
		f := framework.NewFixture(from)
		m := begin(newCloud(framework.NewControlPlane("run", "--store-type", "sqlite").Start()), source{
			flags:   []string{"--gateway-addr", fmt.Sprintf("http://127.0.0.1:%d", from.Admin)},
			gateway: old, client: framework.ClientID, secret: framework.ClientSecret,
			mint: func() string { return f.MustMint(old.HTTPS) },
			publish: func(name, path string) {
				f.Must(201, http.MethodPost, "/services/api/routes", map[string]any{"name": name, "paths": []string{path}})
			},
			own: func(string, func(int) string) {},
			end: func() { old.Stop(); from.Stop() },
		})
		m.copy()
		m.finish()
	})
})

// Source: requirement "Migration rules", 1 and 3.
var _ = Describe("the migration of a control plane in the cloud into a group", func() {
	It("refuses no request, and the new gateways accept the tokens of before", func() {
		c := newCloud(framework.NewControlPlane("run", "--store-type", "sqlite").Start())
		plane := c.plane("old", hybrid)
		c.publish(plane, "api", framework.StartUpstream())
		old := c.gateway("old", "old")
		old.Restart()
		Eventually(func() int { return c.status(old, "api", "") }, patience, 50*time.Millisecond).Should(Equal(http.StatusUnauthorized))
		m := begin(c, source{
			flags:   at(fmt.Sprintf("http://127.0.0.1:%d", c.c.Cloud), c.token, "old"),
			gateway: old, client: "api", secret: "api-secret",
			mint: func() string { return c.mint(old, "api") },
			publish: func(name, path string) {
				c.do(201, "POST", entities(plane)+"/services/api/routes", map[string]any{"name": name, "paths": []string{path}})
			},
			own: disowned,
			end: func() { c.decommission(plane, old) },
		})

		By("a short cut that is closed: the old one itself as the member")
		doc := c.do(400, "POST", group(m.team)+"/group-memberships/add", members(plane))
		Expect(fmt.Sprint(doc)).To(ContainSubstring("connected data plane nodes"))
		c.do(400, "PUT", group(m.team)+"/group-memberships", members(m.member, plane))
		Expect(c.do(200, "GET", group(plane)+"/group-member-status", nil)).To(HaveKeyWithValue("is_member", false))

		m.copy()
		m.finish()
	})
})

// disowned takes the name of its control plane out of a file. Before that, the tool refuses it.
func disowned(file string, sync func(code int) string) {
	GinkgoHelper()
	Expect(sync(1)).To(ContainSubstring("--cloud-control-plane-name is 'member', and control_plane_name in the file is 'old'"))
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	without := strings.Replace(string(text), "_cloud:\n  control_plane_name: old\n", "", 1)
	Expect(without).NotTo(Equal(string(text)))
	Expect(os.WriteFile(file, []byte(without), 0o600)).To(Succeed())
}

// decommission stops the only gateway of a control plane for good, and deletes the control plane.
func (c *cloud) decommission(plane string, gw *framework.Gateway) {
	GinkgoHelper()
	c.do(409, "DELETE", group(plane), nil)
	gw.Stop()
	node := c.MeshURL("/nodes/" + url.PathEscape("cp/"+plane+"/"+gw.Name))
	Eventually(func() (*framework.Response, error) { // the control plane has seen its end
		return framework.Do(c.HTTP, http.MethodGet, node, nil, "")
	}, patience, 50*time.Millisecond).Should(HaveField("Body", MatchRegexp(`"state":\s*"away"`)))
	r, err := framework.Do(c.HTTP, http.MethodDelete, node, nil, "")
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Status).To(Equal(http.StatusOK), r.Body)
	c.do(204, "DELETE", group(plane), nil)
}
