package mesh_test

import (
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("endpoints picked by a hash", Ordered, core, func() {
	const users = 60
	var (
		w        *world
		web      *member
		backends = map[string]*member{}
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		for i := range 4 {
			name := fmt.Sprintf("backend-%d", i+1)
			backends[name] = w.start(name, tags{service: "backend"})
			ledger := fmt.Sprintf("ledger-%d", i+1)
			w.join(w.around(ledger, nil, framework.StartEcho(ledger), tags{service: "ledger", protocol: "tcp"})).WaitReady()
		}
		web = w.start("web-1", tags{service: "web"}, "backend", "ledger")
		w.ready(web)
		for _, m := range backends {
			w.ready(m)
		}
		answers(web.to("backend"), 200)
	})

	// hashed puts a route to a service that hashes what it is told to.
	hashed := func(to, balancer string, of ...any) {
		conf := map[string]any{"hashPolicies": of}
		if balancer == "ringHash" {
			conf["hashFunction"] = "XX_HASH"
		}
		w.Put("traffic-routes", policy("TrafficRoute", "to-"+to, tags{service: "*"}, tags{service: to},
			map[string]any{"destination": tags{service: to}, "loadBalancer": map[string]any{balancer: conf}}))
		w.Converged()
	}
	// asked asks on a connection of its own and returns the answer and who gave it.
	asked := func(path string, header http.Header) (*framework.Response, string) {
		GinkgoHelper()
		r, err := framework.Do(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, http.MethodGet, web.to("backend")+path, header, "")
		Expect(err).NotTo(HaveOccurred())
		return r, r.Received().Name
	}
	// places are the endpoints of users who each ask several times, and always meet the same one.
	places := func(as func(user int) (path string, header http.Header)) map[int]string {
		GinkgoHelper()
		at := map[int]string{}
		for range 3 {
			for user := range users {
				_, name := asked(as(user))
				Expect(at[user]).To(Or(BeEmpty(), Equal(name)), "user %d", user)
				at[user] = name
			}
		}
		return at
	}
	// taken are the endpoints that anybody meets.
	taken := func(at map[int]string) map[string]int {
		n := map[string]int{}
		for _, name := range at {
			n[name]++
		}
		return n
	}
	byHeader := func(user int) (string, http.Header) { return "", http.Header{"X-User": {fmt.Sprintf("user-%d", user)}} }

	// Hashes of fixed values are the same in every run, but the addresses of the endpoints, which are
	// hashed, too, are not. That one of four is met by none of 60 users happens once in a million runs.
	for _, balancer := range []string{"ringHash", "maglev"} {
		It(balancer+": a header decides, and an endpoint that goes takes only its own users along", func() {
			hashed("backend", balancer, map[string]any{"header": map[string]any{"name": "x-user"}})
			before := places(byHeader)
			Expect(taken(before)).To(HaveLen(4))
			AddReportEntry(balancer+", users of each", taken(before))
			w.Delete(shop, "dataplanes", "backend-4")
			w.Converged()
			after, moved, others := places(byHeader), 0, 0
			Expect(taken(after)).To(And(HaveLen(3), Not(HaveKey("backend-4"))))
			for user, name := range before {
				switch {
				case name == "backend-4":
					moved++
				case after[user] != name:
					others++
				}
			}
			AddReportEntry(balancer+", users who moved though their endpoint stayed", fmt.Sprintf("%d of %d", others, users-moved))
			// A table of Maglev is filled anew, and those who stay get more places on a ring. That
			// moves a few; if users were placed anew, two of three would move.
			Expect(others).To(BeNumerically("<", users/3))
			w.Put("dataplanes", backends["backend-4"].doc)
			w.Converged()
			Expect(places(byHeader)).To(Equal(before), "users return with the endpoint")
		})
	}

	It("a parameter of the query decides", func() {
		hashed("backend", "maglev", map[string]any{"queryParameter": map[string]any{"name": "user"}})
		Expect(len(taken(places(func(user int) (string, http.Header) { return fmt.Sprintf("/x?a=b&user=%d", user), http.Header{} })))).To(BeNumerically(">", 1))
	})

	It("a cookie decides, and who has none gets one", func() {
		hashed("backend", "ringHash", map[string]any{"cookie": map[string]any{"name": "place", "ttl": "1h", "path": "/shop"}})
		names := map[string]bool{}
		for range 20 {
			r, name := asked("", http.Header{})
			cookie := r.Header.Get("Set-Cookie")
			Expect(cookie).To(MatchRegexp(`^place="[0-9a-f]+"; Max-Age=3600; Path=/shop; HttpOnly$`))
			names[name] = true
			value, _, _ := strings.Cut(cookie, ";")
			for range 3 {
				again, same := asked("", http.Header{"Cookie": {value}})
				Expect(same).To(Equal(name))
				Expect(again.Header).NotTo(HaveKey("Set-Cookie"))
			}
		}
		Expect(len(names)).To(BeNumerically(">", 1))
	})

	// The proxy beside a workload hears from nobody else, so its source is the same for all requests.
	It("what comes after a terminal policy counts only for requests without its hash", func() {
		hashed("backend", "maglev", map[string]any{"header": map[string]any{"name": "x-user"}})
		alone := places(byHeader)
		Expect(len(taken(alone))).To(BeNumerically(">", 1))
		hashed("backend", "maglev", map[string]any{"header": map[string]any{"name": "x-user"}, "terminal": true}, map[string]any{"sourceIp": map[string]any{}})
		Expect(places(byHeader)).To(Equal(alone), "the source changes nothing where the header is")
		Expect(taken(places(func(int) (string, http.Header) { return "", http.Header{} }))).To(HaveLen(1))
	})

	It("connections of TCP: only the source, and everything else is told", func() {
		connections := func() map[string]bool {
			met := map[string]bool{}
			for range 30 {
				conn, lines := dialEcho(web.port2("ledger"))
				met[strings.TrimSuffix(conn.say(lines, "x"), " x")] = true
				Expect(conn.Close()).To(Succeed())
			}
			return met
		}
		const told = `TrafficRoute to-ledger: conf.loadBalancer.maglev.hashPolicies[0] has no effect: the destination speaks tcp, and of its connections only sourceIp can be hashed`
		hashed("ledger", "maglev", map[string]any{"header": map[string]any{"name": "x-user"}})
		Expect(len(connections())).To(BeNumerically(">", 1), "nothing is hashed")
		Eventually(func() []string { return w.overview("web-1").Errors }, patience, "20ms").Should(ContainElement(told))
		policies := w.Get("/meshes/" + shop + "/dataplanes/web-1/policies")
		Expect(policies["errors"]).To(ContainElement(told))
		hashed("ledger", "maglev", map[string]any{"sourceIp": map[string]any{}})
		Expect(connections()).To(HaveLen(1))
		Eventually(func() []string { return w.overview("web-1").Errors }, patience, "20ms").Should(BeEmpty())
	})
})
