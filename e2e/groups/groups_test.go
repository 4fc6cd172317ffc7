package groups_test

import (
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

const (
	hybrid = "CLUSTER_TYPE_HYBRID"
	ofMany = "CLUSTER_TYPE_CONTROL_PLANE_GROUP"
)

var _ = Describe("a group of control planes", Ordered, func() {
	var c *cloud
	var up *framework.Upstream
	var gw *framework.Gateway
	var team, shop, books string
	tokens := map[string]string{}

	// within waits for what happens without a request of the test.
	within := func(what func() any) AsyncAssertion {
		GinkgoHelper()
		return Eventually(what, patience, 50*time.Millisecond)
	}

	BeforeAll(func() {
		c = newCloud(framework.NewControlPlane("run").Start())
		up = framework.StartUpstream()
		team, shop, books = c.plane("team", ofMany), c.plane("shop", hybrid), c.plane("books", hybrid)
		c.publish(shop, "shop", up)
		c.publish(books, "books", up)
		c.do(204, "PUT", group(team)+"/group-memberships", members(shop, books))
		gw = c.gateway("gw", "team")
		gw.Restart()
	})

	It("serves the routes of all members, to the applications of all", func() {
		for _, name := range []string{"shop", "books"} {
			within(func() any { return c.status(gw, name, "") }).Should(Equal(401))
			tokens[name] = c.mint(gw, name)
			Expect(c.status(gw, name, tokens[name])).To(Equal(200), name)
		}
		Expect(c.status(gw, "shop", tokens["books"])).To(Equal(401), "a token for another service")
	})

	It("lists the gateway, and knows that it is in step", func() {
		within(func() any {
			expected := c.do(200, "GET", group(team)+"/expected-config-hash", nil)["expected_hash"]
			items := c.do(200, "GET", group(team)+"/nodes", nil)["items"].([]any)
			return expected != nil && expected != "" && len(items) == 1 && items[0].(map[string]any)["hostname"] == "gw" && items[0].(map[string]any)["config_hash"] == expected
		}).Should(BeTrue())
		Expect(c.do(200, "GET", group(team)+"/group-status", nil)["item"]).To(HaveKeyWithValue("state", "OK"))
		Expect(c.do(200, "GET", group(shop)+"/nodes", nil)["items"]).To(BeEmpty())
	})

	It("refuses what is written to the group", func() {
		doc := c.do(403, "POST", entities(team)+"/services", map[string]any{"name": "own", "host": "h.test"})
		Expect(doc["detail"]).To(ContainSubstring("is a group of control planes"))
	})

	It("takes and loses members while the routes of others are served", func() {
		load := framework.StartTraffic(fmt.Sprintf("http://127.0.0.1:%d/shop/load", gw.HTTP), http.Header{"Authorization": {"Bearer " + tokens["shop"]}}, 4)
		for range 3 {
			load.Served(20)
			c.do(204, "POST", group(team)+"/group-memberships/remove", members(books))
			within(func() any { return c.status(gw, "books", tokens["books"]) }).Should(Equal(404))
			load.Served(20)
			c.do(204, "POST", group(team)+"/group-memberships/add", members(books))
			within(func() any { return c.status(gw, "books", tokens["books"]) }).Should(Equal(200))
		}
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
	})

	It("says who contradicts whom, and serves everything else", func() {
		const id = "10000000-0000-4000-8000-0000000000aa"
		c.do(200, "PUT", entities(shop)+"/services/"+id, map[string]any{"name": "first", "host": "h.test"})
		c.do(200, "PUT", entities(books)+"/services/"+id, map[string]any{"name": "second", "host": "h.test"})
		var item map[string]any
		within(func() any {
			item = c.do(200, "GET", group(team)+"/group-status", nil)["item"].(map[string]any)
			return item["state"]
		}).Should(Equal("CONFLICT"))
		sides := []any{}
		for _, side := range item["conflicts"].([]any) {
			sides = append(sides, side.(map[string]any)["cluster_id"])
		}
		Expect(sides).To(ConsistOf(shop, books))
		for name, token := range tokens {
			Expect(c.status(gw, name, token)).To(Equal(200), name)
		}
		c.do(204, "DELETE", entities(books)+"/services/"+id, nil)
		within(func() any {
			return c.do(200, "GET", group(team)+"/group-status", nil)["item"].(map[string]any)["state"]
		}).Should(Equal("OK"))
	})

	It("lets no member switch off what another one had first", func() {
		load := framework.StartTraffic(fmt.Sprintf("http://127.0.0.1:%d/shop/load", gw.HTTP), http.Header{"Authorization": {"Bearer " + tokens["shop"]}}, 4)
		load.Served(20)
		By("another consumer of books, and a writer of shop who would like to have its client")
		for plane, secret := range map[string]string{books: "novel-secret", shop: "novel-theirs"} {
			c.do(201, "POST", entities(plane)+"/consumers", map[string]any{"username": "of-" + secret})
		}
		add := func(plane, secret string, created int) { // of the two nothing is announced, so no revision is between them
			GinkgoHelper()
			c.do(201, "POST", entities(plane)+"/consumers/of-"+secret+"/oauth2", map[string]any{
				"name": secret, "client_id": "novel", "client_secret": secret, "redirect_uris": []string{"https://client.test/callback"}, "created_at": created,
			})
		}
		add(books, "novel-secret", 2)
		add(shop, "novel-theirs", 1)
		other := c.minted(gw, "books", "novel", "novel-secret")
		Expect(c.status(gw, "books", other)).To(Equal(200))
		Expect(c.grant(gw, "shop", "novel", "novel-theirs").Status).To(Equal(400), "although it says that it is older")
		c.do(204, "DELETE", entities(shop)+"/consumers/of-novel-theirs", nil)
		c.do(200, "PATCH", entities(books)+"/consumers/books", map[string]any{"username": "shop"})
		within(func() any { return c.status(gw, "books", tokens["books"]) }).Should(Equal(503))
		item := c.do(200, "GET", group(team)+"/group-status", nil)["item"].(map[string]any)
		Expect(item).To(HaveKeyWithValue("state", "CONFLICT"))
		Expect(item["conflicts"]).To(HaveLen(2))
		load.Served(20)
		c.do(200, "PATCH", entities(books)+"/consumers/shop", map[string]any{"username": "books"})
		within(func() any { return c.status(gw, "books", tokens["books"]) }).Should(Equal(200))

		c.do(200, "PATCH", entities(books)+"/consumers/books/oauth2/books", map[string]any{"client_id": "shop"})
		within(func() any { return c.status(gw, "books", tokens["books"]) }).Should(Equal(503))
		Expect(c.status(gw, "books", other)).To(Equal(200), "another consumer of books")
		Expect(c.status(gw, "shop", c.mint(gw, "shop"))).To(Equal(200))
		load.Served(20)
		c.do(200, "PATCH", entities(books)+"/consumers/books/oauth2/shop", map[string]any{"client_id": "books"})
		within(func() any { return c.status(gw, "books", tokens["books"]) }).Should(Equal(200))
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
	})

	It("lets the member that is listed later keep what it had first", func() {
		load := framework.StartTraffic(fmt.Sprintf("http://127.0.0.1:%d/shop/load", gw.HTTP), http.Header{"Authorization": {"Bearer " + tokens["shop"]}}, 4)
		load.Served(20)
		// Neither the order of the members decides, nor whose consumer is older.
		c.apply(shop, "older")
		c.apply(books, "newer")
		older, newer := c.minted(gw, "shop", "older", "older-secret"), c.minted(gw, "books", "newer", "newer-secret")
		both := func() []int { return []int{c.status(gw, "shop", older), c.status(gw, "books", newer)} }
		Expect(both()).To(Equal([]int{200, 200}))
		c.do(200, "PATCH", entities(books)+"/consumers/newer", map[string]any{"custom_id": "same"})
		c.do(200, "PATCH", entities(shop)+"/consumers/older", map[string]any{"custom_id": "same"})
		within(func() any { return c.status(gw, "shop", older) }).Should(Equal(503))
		for range 20 {
			Expect(both()).To(Equal([]int{503, 200}), "books had it first")
		}
		c.do(200, "PATCH", entities(shop)+"/consumers/older", map[string]any{"custom_id": "another"})
		within(func() any { return c.status(gw, "shop", older) }).Should(Equal(200))
		for range 20 {
			Expect(both()).To(Equal([]int{200, 200}))
		}
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
	})

	It("takes no member with a connected gateway", func() {
		busy := c.plane("busy", hybrid)
		c.publish(busy, "busy", up)
		own := c.gateway("own", busy)
		own.Restart()
		within(func() any { return c.status(own, "busy", "") }).Should(Equal(401))
		doc := c.do(400, "POST", group(team)+"/group-memberships/add", members(busy))
		Expect(fmt.Sprint(doc)).To(ContainSubstring("connected data plane nodes"))
		c.do(409, "DELETE", group(busy), nil)
		own.Stop()
		within(func() any {
			n := c.do(200, "GET", group(busy)+"/nodes", nil)["items"].([]any)[0].(map[string]any)
			return n["type"]
		}).ShouldNot(Equal("gateway-connected"))
		c.do(409, "DELETE", group(busy), nil) // it may come back
		Eventually(func() int { return c.answer("DELETE", group(busy)) }, 90*time.Second, time.Second).Should(Equal(204))
	})

	It("lets no gateway join what there is not, or what its token is not for", func() {
		r, err := c.issue("lost", "nowhere")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(400), r.Body)
		Expect(r.Body).To(ContainSubstring("does not exist"))
		for named, want := range map[string]string{"nowhere": `there is no control plane "nowhere"`, "shop": `is for the control plane`} {
			lost := c.gateway("lost-"+named, "team")
			lost.Append("--control-plane", named)
			lost.Launch()
			Expect(lost.Exit(framework.ReadyTimeout)).NotTo(BeZero())
			Expect(lost.Output()).To(ContainSubstring(want))
		}
	})
})
