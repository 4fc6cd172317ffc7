package faults_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// What gateways remember of a token, a credential or a consumer must not outlive
// it, nor hide the one that comes after it under the same name.
var _ = Describe("with three gateways", func() {
	var (
		c        *framework.ControlPlane
		gateways []*framework.Gateway
		f        *framework.Fixture
	)

	BeforeEach(func() {
		c = framework.NewControlPlane("run").Start()
		gateways = []*framework.Gateway{framework.StartGateway(c, "a"), framework.StartGateway(c, "b"), framework.StartGateway(c, "c")}
		f = framework.NewFixture(c)
	})

	issue := func(clientID, token string) {
		app := f.Must(200, http.MethodGet, "/oauth2/"+clientID, nil).JSON()
		service := f.Must(200, http.MethodGet, "/services/api", nil).JSON()
		f.Must(201, http.MethodPost, "/oauth2_tokens", map[string]any{
			"credential": map[string]any{"id": app["id"]}, "service": map[string]any{"id": service["id"]}, "expires_in": 600, "access_token": token,
		})
	}

	It("a consumer, an application and a token that are deleted and made anew under the same names are the new ones everywhere", func() {
		token := strings.Repeat("t", 32)
		everywhere := func(status int, user string) {
			GinkgoHelper()
			for _, g := range gateways {
				r, err := f.Call(g.HTTP, token)
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Status).To(Equal(status), g.Name)
				if status == 200 {
					Expect(r.Body).To(ContainSubstring(user))
				}
			}
		}
		for round := range 4 {
			custom := fmt.Sprintf("custom-%d", round)
			create := func() {
				f.Must(201, http.MethodPost, "/consumers/again/oauth2", map[string]any{
					"name": "app", "client_id": "again", "client_secret": "again", "redirect_uris": []string{"https://app.example/cb"},
				})
				issue("again", token)
			}
			f.Must(201, http.MethodPost, "/consumers", map[string]any{"username": "again", "custom_id": custom})
			create()
			everywhere(200, custom)
			f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
			everywhere(401, "")
			issue("again", token)
			everywhere(200, custom)
			f.Must(204, http.MethodDelete, "/consumers/again/oauth2/again", nil)
			everywhere(401, "")
			create()
			everywhere(200, custom)
			f.Must(204, http.MethodDelete, "/consumers/again", nil)
			everywhere(401, "")
		}
	})

	It("a token that was shown to the wrong service first is good for the right one, in every order", func() {
		port, err := strconv.Atoi(f.Upstream.Port())
		Expect(err).NotTo(HaveOccurred())
		f.Must(201, http.MethodPost, "/services", map[string]any{"name": "other", "host": "127.0.0.1", "port": port})
		f.Must(201, http.MethodPost, "/services/other/routes", map[string]any{"name": "other", "paths": []string{"/other"}})
		f.Must(201, http.MethodPost, "/services/other/plugins", map[string]any{
			"name": "oauth2", "config": map[string]any{"enable_client_credentials": true, "scopes": []string{"email"}},
		})
		f.Converged()
		ask := func(g *framework.Gateway, path, token string) int {
			r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", g.HTTP, path), http.Header{"Authorization": {"Bearer " + token}}, "")
			Expect(err).NotTo(HaveOccurred())
			return r.Status
		}
		want := map[string]int{framework.RoutePath: 200, "/other": 401}
		// Each sequence of three questions about a fresh token, at one gateway and
		// spread over all.
		for order := range 8 {
			for _, spread := range []bool{false, true} {
				token := f.MustMint(gateways[0].HTTPS)
				for step := range 3 {
					path := []string{framework.RoutePath, "/other"}[order>>step&1]
					g := gateways[1]
					if spread {
						g = gateways[step]
					}
					Expect(ask(g, path, token)).To(Equal(want[path]), "order %03b, step %d, %s at %s", order, step, path, g.Name)
				}
			}
		}
	})
})
