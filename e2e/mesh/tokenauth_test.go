package mesh_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("tokens of the gateway on an inbound", Ordered, core, func() {
	It("MeshTokenAuth: refused without, the consumer's identity with, and at once after its end", func() {
		cp := framework.NewControlPlane("standalone")
		if envoy := otherEnvoy(); envoy != "" {
			cp.Args = append(cp.Args, "--envoy-path", envoy)
		}
		w := adopt(cp.Start(), "STRICT")
		f := framework.NewFixture(cp)
		// Each worker of a proxy decides for itself, so there are several.
		backend := w.join(w.describe("backend-1", tags{service: "backend"}), workers...)
		web := w.join(w.describe("web-1", tags{service: "web"}, "backend"), workers...)
		w.ready(web, backend)
		answers(web.to("backend"), 200)
		// Only a proxy that checks tokens hears where their records are.
		hears := func(p *member) func() []string {
			return func() []string {
				files, err := filepath.Glob(filepath.Join(p.StateDir, "run", "*", "level2.json"))
				Expect(err).NotTo(HaveOccurred())
				return files
			}
		}
		Expect(hears(backend)()).To(BeEmpty())
		Expect(backend.Stat("server.concurrency")).To(Equal(4))

		w.Put("meshtokenauths", framework.Document{
			"type": "MeshTokenAuth", "mesh": shop, "name": "tokens",
			"spec": map[string]any{
				"targetRef": map[string]any{"kind": "MeshService", "name": "backend"},
				"from": []any{map[string]any{
					"targetRef": map[string]any{"kind": "Mesh"},
					"default":   map[string]any{"plugin": map[string]any{"controlPlane": "default", "id": f.Plugin}},
				}},
			},
		})
		// The filter comes with the listener: connections of before end with the next
		// answer on them.
		since := time.Now()
		measured("tokens demanded after", since, func() bool { return called(web.to("backend")) == 401 })
		w.Converged()
		Eventually(hears(backend), 20*time.Second, 20*time.Millisecond).Should(HaveLen(1))
		Expect(hears(web)()).To(BeEmpty())
		client := &http.Client{}
		DeferCleanup(client.CloseIdleConnections)
		call := func(token string) *framework.Response {
			h := http.Header{"X-Consumer-Username": {"mallory"}, "X-Authenticated-Scope": {"everything"}}
			if token != "" {
				h.Set("Authorization", "Bearer "+token)
			}
			r, err := framework.Do(client, http.MethodGet, web.to("backend"), h, "")
			Expect(err).NotTo(HaveOccurred())
			return r
		}

		none := call("")
		Expect(none.Status).To(Equal(401), none.Body)
		Expect(none.Header.Get("WWW-Authenticate")).To(HavePrefix("Bearer"))
		Expect(call("never-issued").Status).To(Equal(401))

		// An endpoint of the plugin is one on gateways only.
		for _, path := range []string{
			"/orders/7/oauth2/token", "/oauth2/token/", "/x/oauth2/authorize", "/x/oauth2/introspect",
			"/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/../../admin", "/a/../oauth2/token",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				r, err := framework.Do(client, method, web.to("backend")+path, nil, "")
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Status).To(Equal(401), "%s %s: %s", method, path, r.Body)
			}
		}

		token := f.MustMint(cp.HTTPS)
		got := call(token).Received()
		r, err := framework.Do(client, http.MethodPost, web.to("backend")+"/a//b/../oauth2/token", http.Header{
			"Authorization": {"Bearer " + token}, "X-Meshgate-Oauth": {"x"}, "X_meshgate-Client": {"x"}, "X-Consumer-Groups": {"admin"},
		}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		Expect(r.Received().Path).To(Equal("/a/oauth2/token"), "the path is that by which it was decided")
		for name := range r.Received().Headers {
			Expect(strings.ToLower(strings.ReplaceAll(name, "_", "-"))).NotTo(Or(HavePrefix("x-meshgate-"), Equal("x-consumer-groups")))
		}
		Expect(got.Headers.Values("X-Consumer-Username")).To(Equal([]string{"alice"}))
		Expect(got.Headers.Get("X-Consumer-Custom-Id")).To(Equal("c-1"))
		Expect(got.Headers.Values("X-Authenticated-Scope")).To(Equal([]string{"email"}))
		Expect(got.Headers.Get("X-Forwarded-Client-Cert")).To(ContainSubstring("URI=spiffe://shop/web"))
		Expect(f.Status(cp.HTTP, token)).To(Equal(200), "the same token on the gateway")

		for range 10 {
			token := f.MustMint(cp.HTTPS)
			Expect(call(token).Status).To(Equal(200))
			var open []*kept
			for range 16 {
				c := keepAlive(web.port2("backend"))
				c.header = http.Header{"Authorization": {"Bearer " + token}}
				open = append(open, c)
			}
			Expect(together(open)).To(HaveEach(200))
			f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
			Expect(together(open)).To(HaveEach(401), "DELETE answers when no worker of a proxy accepts the token any more")
		}

		since = time.Now()
		f.Must(204, http.MethodDelete, "/plugins/"+f.Plugin, nil)
		measured("refused without the plugin after", since, func() bool { return call(token).Status == 503 })
		Expect(strings.Join(w.overview("backend-1").Errors, "\n")).To(ContainSubstring(f.Plugin))
		Expect(call("").Status).To(Equal(503), "nothing is let through")
	})
})
