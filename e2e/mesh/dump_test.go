package mesh_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("what a proxy holds", Ordered, func() {
	var (
		w            *world
		web, backend *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, backend)
		answers(web.to("backend"), 200)
	})

	dump := func(name string) string {
		r := w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/"+name+"/xds", nil)
		ExpectWithOffset(1, r.Status).To(Equal(http.StatusOK), r.Body)
		ExpectWithOffset(1, r.Header.Get("Content-Type")).To(Equal("application/json"))
		return r.Body
	}

	// sections are the parts of a dump by their type's last word.
	sections := func(text string) map[string]any {
		var doc struct {
			Configs []map[string]any `json:"configs"`
		}
		ExpectWithOffset(1, json.Unmarshal([]byte(text), &doc)).To(Succeed(), text)
		out := map[string]any{}
		for _, c := range doc.Configs {
			kind, _ := c["@type"].(string)
			out[kind[strings.LastIndex(kind, ".")+1:]] = c
		}
		return out
	}

	// secretless demands that a dump has no private key, in any spelling.
	secretless := func(text string) {
		ExpectWithOffset(1, text).NotTo(ContainSubstring("PRIVATE KEY"))
		for _, word := range []string{"-----BEGIN PRIVATE KEY-----", "-----BEGIN EC PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----"} {
			// The whole groups of three bytes; in a document the text begins one.
			encoded := base64.StdEncoding.EncodeToString([]byte(word))
			ExpectWithOffset(1, text).NotTo(ContainSubstring(encoded[:len(encoded)/4*4-4]))
		}
		ExpectWithOffset(1, text).NotTo(ContainSubstring(web.Token()))
	}

	It("says which endpoints its Envoy knows, and its figures", func() {
		page := func(path string) *framework.Response { return w.Mesh(http.MethodGet, path, nil) }
		const of = "/meshes/" + shop + "/dataplanes/web-1/"
		clusters := page(of + "clusters")
		Expect(clusters.Status).To(Equal(http.StatusOK), clusters.Body)
		Expect(clusters.Header.Get("Content-Type")).To(HavePrefix("text/plain"))
		Expect(clusters.Body).To(MatchRegexp(`(?m)^backend::127\.0\.0\.1:\d+::health_flags::healthy$`))
		secretless(clusters.Body)
		Expect(page(of + "clusters?format=json").JSON()).To(HaveKey("cluster_statuses"))
		stats := page(of + "stats")
		Expect(stats.Status).To(Equal(http.StatusOK), stats.Body)
		Expect(stats.Body).To(MatchRegexp(`(?m)^cluster\.backend\.upstream_rq_total: [1-9]`))
		Expect(len(page(of + "stats?usedonly=false").Body)).To(BeNumerically(">", len(stats.Body)))
		Expect(page(of + "stats?format=json").JSON()).To(HaveKey("stats"))
		Expect(page("/nodes/" + shop + ".backend-1/stats").Body).To(ContainSubstring("server.live: 1"))
	})

	It("is what Envoy says it holds, without a private key", func() {
		for _, m := range []*member{web, backend} {
			own, err := m.Admin("/config_dump?include_eds")
			Expect(err).NotTo(HaveOccurred())
			shown := dump(m.Name)
			want, got := sections(own), sections(shown)
			for _, part := range []string{"ClustersConfigDump", "ListenersConfigDump", "RoutesConfigDump"} {
				Expect(want).To(HaveKey(part))
				Expect(got[part]).To(Equal(want[part]), part)
			}
			Expect(got).To(HaveKey("SecretsConfigDump"))
			secretless(shown)
		}
	})

	It("is our record when the proxy is away, and is marked so", func() {
		held := dump(web.Name)
		web.Stop()
		Eventually(func() bool { return w.overview(web.Name).online() }, patience, 20*time.Millisecond).Should(BeFalse())
		record := dump(web.Name)
		Expect(record).To(ContainSubstring("the proxy is away"), "it says what it is")
		for _, name := range []string{`"backend"`, `"outbound:127.0.0.1:`} {
			Expect(held).To(ContainSubstring(name))
			Expect(record).To(ContainSubstring(name))
		}
		Expect(sections(record)).NotTo(Equal(sections(held)))
		secretless(record)
	})

	It("is for administrators only, and nothing for dataplanes that do not exist", func() {
		Expect(w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/nobody/xds", nil).Status).To(Equal(http.StatusNotFound))
		url := "/meshes/" + shop + "/dataplanes/" + backend.Name + "/xds"
		r, err := framework.Do(w.HTTP, http.MethodGet, w.MeshURL(url), http.Header{"X-Forwarded-For": {"192.0.2.1"}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(BeElementOf(http.StatusUnauthorized, http.StatusForbidden), r.Body)
		Expect(r.Body).NotTo(ContainSubstring("config"))
	})
})
