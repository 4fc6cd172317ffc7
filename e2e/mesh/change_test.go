package mesh_test

import (
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("changes under load", Ordered, core, func() {
	var (
		w             *world
		web           *member
		first, second *member
		load, fresh   *framework.Load
	)

	rule := func(prefix string, to tags) map[string]any {
		return map[string]any{"match": map[string]any{"path": map[string]any{"prefix": prefix}}, "destination": to}
	}
	v1 := tags{service: "backend", "version": "v1"}
	v2 := tags{service: "backend", "version": "v2"}

	BeforeAll(func() {
		w = newWorld("STRICT")
		first = w.start("backend-1", tags{service: "backend", "version": "v1", "team": "a"})
		second = w.start("backend-2", tags{service: "backend", "version": "v2", "team": "a"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, first, second)
		answers(web.to("backend"), 200)
	})

	BeforeEach(func() {
		load = framework.StartTraffic(web.to("backend")+"/ab/c", http.Header{}, 1)
		fresh = framework.StartConnections(web.to("backend")+"/ab/c", http.Header{}, 1, 5)
		load.Served(50)
	})

	// proven ends a spec: nothing failed, not even an attempt that was repeated.
	// The counters also show what a retry has made good.
	proven := func() {
		load.Served(50)
		none(load)
		none(fresh)
		for name, n := range web.Stats() {
			if strings.HasSuffix(name, ".no_cluster") || strings.HasSuffix(name, ".upstream_cx_none_healthy") {
				Expect(n).To(BeZero(), name)
			}
		}
	}

	It("routes are put into other orders, rules come and go", func() {
		rules := []any{rule("/ab", v1), rule("/a", v2), rule("/x", v1), rule("/", v2)}
		for n := range 12 {
			order := append(append([]any{}, rules[n%4:]...), rules[:n%4]...)
			w.route(map[string]any{"http": order[:4-n%3], "destination": tags{service: "backend"}})
			if n%2 == 0 {
				w.Converged()
			}
			load.Served(20)
		}
		w.Converged()
		proven()
		w.route(map[string]any{"http": rules, "destination": tags{service: "backend"}})
		w.Converged()
		r, err := get(web.to("backend") + "/ab/c")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Received().Name).To(Equal("backend-1"), "the first rule that matches decides")
		r, err = get(web.to("backend") + "/a")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Received().Name).To(Equal("backend-2"))
	})

	It("clusters get other names because the tags of their subsets change", func() {
		before := web.Stat("cluster_manager.cluster_added")
		for n := range 12 {
			a, b := tags{service: "backend", "version": "v1"}, tags{service: "backend", "version": "v2"}
			if n%2 == 0 {
				a["team"], b["team"] = "a", "a"
			}
			w.route(map[string]any{"split": []any{share(50, a), share(50, b)}})
			if n%3 == 0 {
				w.Converged()
			}
			load.Served(20)
		}
		w.Converged()
		Expect(web.Stat("cluster_manager.cluster_added")).To(BeNumerically(">", before+4), "clusters did get other names")
		proven()
		Expect(web.Stat("cluster_manager.warming_clusters")).To(BeZero())
	})

	It("dataplanes get other tags, and with them other listeners and identities", func() {
		w.route(map[string]any{"destination": tags{service: "backend"}})
		w.Converged()
		handshakes := web.Stat("cluster.backend.ssl.handshake")
		for n := range 6 {
			for _, m := range []*member{first, second} {
				inbound := m.doc["networking"].(map[string]any)["inbound"].([]any)[0].(map[string]any)
				inbound["tags"].(tags)["team"] = []string{"b", "a"}[n%2]
				w.Put("dataplanes", m.doc)
				load.Served(20)
			}
			if n%2 == 0 {
				w.Converged()
			}
		}
		w.Converged()
		for _, m := range []*member{first, second} {
			Eventually(func() string {
				identity, _ := m.trust()
				return fmt.Sprint(identity.URIs)
			}, patience).Should(ContainSubstring("mesh://team/a"))
		}
		Expect(web.Stat("cluster.backend.ssl.handshake")).To(BeNumerically(">", handshakes))
		proven()
	})

	It("endpoints come and go", func() {
		w.route(map[string]any{"destination": tags{service: "backend"}})
		w.Converged()
		third := w.start("backend-3", tags{service: "backend", "version": "v3"})
		third.WaitReady()
		Eventually(func() string {
			r, err := get(web.to("backend"))
			Expect(err).NotTo(HaveOccurred())
			return r.Received().Name
		}, patience).Should(Equal("backend-3"))
		for _, gone := range []*member{third, second} {
			w.Delete(shop, "dataplanes", gone.Name)
			w.Converged()
			load.Served(50)
			gone.Stop()
			load.Served(50)
		}
		proven()
		for range 20 {
			r, err := get(web.to("backend"))
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Received().Name).To(Equal("backend-1"))
		}
	})
})
