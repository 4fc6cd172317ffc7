package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("a protected route", Ordered, func() {
	var c *framework.ControlPlane
	var f *framework.Fixture

	BeforeAll(func() {
		c = framework.NewControlPlane("standalone").Start()
		f = framework.NewFixture(c)
	})

	It("is served to golang.org/x/oauth2", func() {
		ctx := context.WithValue(context.Background(), oauth2.HTTPClient, f.HTTP)
		for _, style := range []oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams} {
			cfg := clientcredentials.Config{
				ClientID: framework.ClientID, ClientSecret: framework.ClientSecret, Scopes: []string{"email", "phone"}, AuthStyle: style,
				TokenURL: fmt.Sprintf("https://localhost:%d%s/oauth2/token", c.HTTPS, framework.RoutePath),
			}
			resp, err := framework.Do(cfg.Client(ctx), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", c.HTTP, framework.RoutePath), nil, "")
			Expect(err).NotTo(HaveOccurred())
			Expect(resp.Status).To(Equal(200), resp.Body)
			Expect(resp.Body).To(ContainSubstring(`"X-Authenticated-Scope":["email,phone"]`))
			Expect(resp.Body).To(ContainSubstring(`"X-Credential-Identifier":["fixture-app"]`))
		}
	})

	It("is served to curl over HTTP/1.1, HTTP/2 and TLS", func() {
		token := f.MustMint(c.HTTPS)
		for _, args := range [][]string{
			{"--http1.1", fmt.Sprintf("http://127.0.0.1:%d/api/x", c.HTTP)},
			{"--http2-prior-knowledge", fmt.Sprintf("http://127.0.0.1:%d/api/x", c.HTTP)},
			{"--http2", "--cacert", c.CAFile(), fmt.Sprintf("https://localhost:%d/api/x", c.HTTPS)},
		} {
			out, err := exec.Command("curl", append([]string{"-sS", "-m", "10", "-w", "\n%{http_code}", "-H", "Authorization: bearer " + token}, args...)...).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(out))
			Expect(string(out)).To(HaveSuffix("\n200"))
			Expect(string(out)).To(ContainSubstring(`"X-Consumer-Username":["alice"]`))
		}
	})

	It("is administered over HTTPS too", func() {
		r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("https://localhost:%d/status", c.AdminTLS), nil, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		Expect(r.Body).To(ContainSubstring(`"reachable":true`))
	})

	It("strips what clients say about themselves, with and without the filter", func() {
		f.Must(201, http.MethodPost, "/services/api/routes", map[string]any{"name": "open", "paths": []string{"/open"}})
		svc := f.Must(200, http.MethodGet, "/services/api", nil).JSON()
		f.Must(201, http.MethodPost, "/services", map[string]any{"name": "open", "host": "127.0.0.1", "port": svc["port"]})
		f.Must(200, http.MethodPatch, "/routes/open", map[string]any{"service": map[string]any{"name": "open"}})
		f.Converged()
		token := f.MustMint(c.HTTPS)
		spoofed := []string{}
		for _, h := range []string{"X-Consumer-ID", "X-Consumer-Custom-ID", "X-Consumer-Username", "X-Credential-Identifier", "X-Authenticated-Scope", "X-Authenticated-Userid", "X-Anonymous-Consumer"} {
			spoofed = append(spoofed, "-H", h+": spoofed", "-H", strings.ReplaceAll(h, "-", "_")+": spoofed")
		}
		spoofed = append(spoofed, "-H", "x-meshgate-oauth: spoofed", "-H", "x_meshgate_oauth: spoofed", "-H", "x-meshgate-service: spoofed")
		for _, path := range []string{"/api/x", "/open/x"} {
			args := append([]string{"-sS", "-m", "10", "-H", "Authorization: bearer " + token, fmt.Sprintf("http://127.0.0.1:%d%s", c.HTTP, path)}, spoofed...)
			out, err := exec.Command("curl", args...).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(out))
			Expect(string(out)).To(ContainSubstring(`"path":"/x"`))
			Expect(string(out)).NotTo(ContainSubstring("spoofed"))
		}
	})

	It("refuses a deleted, patched or orphaned token at the very next call", func() {
		token := f.MustMint(c.HTTPS)
		Expect(f.Status(c.HTTP, token)).To(Equal(200))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
		Expect(f.Status(c.HTTP, token)).To(Equal(401))

		token = f.MustMint(c.HTTPS)
		Expect(f.Status(c.HTTP, token)).To(Equal(200))
		f.Must(200, http.MethodPatch, "/oauth2_tokens/"+token, map[string]any{"access_token": "renamed-" + token})
		Expect(f.Status(c.HTTP, token)).To(Equal(401))
		Expect(f.Status(c.HTTP, "renamed-"+token)).To(Equal(200))

		f.Must(201, http.MethodPost, "/consumers/alice/oauth2", map[string]any{"name": "second", "client_id": "second", "client_secret": "s2", "redirect_uris": []string{"https://app.example/cb"}})
		app := f.Must(200, http.MethodGet, "/oauth2/second", nil).JSON()
		service := f.Must(200, http.MethodGet, "/services/api", nil).JSON()
		f.Must(201, http.MethodPost, "/oauth2_tokens", map[string]any{
			"credential": map[string]any{"id": app["id"]}, "service": map[string]any{"id": service["id"]}, "expires_in": 60, "access_token": "migrated",
		})
		Expect(f.Status(c.HTTP, "migrated")).To(Equal(200))
		f.Must(200, http.MethodPatch, "/consumers/alice", map[string]any{"custom_id": "c-2"})
		r, err := f.Call(c.HTTP, "migrated")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Body).To(ContainSubstring(`"X-Consumer-Custom-Id":["c-2"]`))
		f.Must(204, http.MethodDelete, "/oauth2/second", nil)
		Expect(f.Status(c.HTTP, "migrated")).To(Equal(401))
	})

	It("accepts a token that was unknown before it was created", func() {
		Expect(f.Status(c.HTTP, "late")).To(Equal(401))
		app := f.Must(200, http.MethodGet, "/oauth2/"+framework.ClientID, nil).JSON()
		service := f.Must(200, http.MethodGet, "/services/api", nil).JSON()
		doc := map[string]any{"credential": map[string]any{"id": app["id"]}, "service": map[string]any{"id": service["id"]}, "expires_in": 60, "access_token": "late"}
		f.Must(201, http.MethodPost, "/oauth2_tokens", doc)
		Expect(f.Status(c.HTTP, "late")).To(Equal(200))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/late", nil)
		Expect(f.Status(c.HTTP, "late")).To(Equal(401))
		f.Must(201, http.MethodPost, "/oauth2_tokens", doc)
		Expect(f.Status(c.HTTP, "late")).To(Equal(200), "deleted and created again")
	})
})
