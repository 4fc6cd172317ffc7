package framework

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/onsi/gomega"
)

// Fixture is a protected route with one application.
type Fixture struct {
	*API
	Upstream *Upstream
	Plugin   string
}

// Credentials of the fixture's application.
const (
	ClientID     = "fixture-app"
	ClientSecret = "fixture-secret"
	RoutePath    = "/api"
)

// NewFixture creates a service, a route at [RoutePath], an oauth2 plugin on the
// service, a consumer alice and an application, and waits for all proxies.
func NewFixture(c *ControlPlane) *Fixture {
	f := &Fixture{API: c.API(), Upstream: StartUpstream()}
	port, err := strconv.Atoi(f.Upstream.Port())
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	f.Must(201, http.MethodPost, "/services", map[string]any{"name": "api", "host": "127.0.0.1", "port": port})
	f.Must(201, http.MethodPost, "/services/api/routes", map[string]any{"name": "api", "paths": []string{RoutePath}})
	p := f.Must(201, http.MethodPost, "/services/api/plugins", map[string]any{
		"name":   "oauth2",
		"config": map[string]any{"enable_client_credentials": true, "scopes": []string{"email", "phone"}, "token_expiration": 3600},
	})
	f.Plugin, _ = p.JSON()["id"].(string)
	f.Must(201, http.MethodPost, "/consumers", map[string]any{"username": "alice", "custom_id": "c-1"})
	f.Must(201, http.MethodPost, "/consumers/alice/oauth2", map[string]any{
		"name": "app", "client_id": ClientID, "client_secret": ClientSecret, "redirect_uris": []string{"https://app.example/cb"},
	})
	f.Converged()
	return f
}

// Mint obtains an access token at a gateway's HTTPS port.
func (f *Fixture) Mint(httpsPort int) (string, error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {ClientID}, "client_secret": {ClientSecret}, "scope": {"email"}}
	r, err := Do(f.HTTP, http.MethodPost, fmt.Sprintf("https://localhost:%d%s/oauth2/token", httpsPort, RoutePath),
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode())
	if err != nil {
		return "", err
	}
	if r.Status != http.StatusOK {
		return "", fmt.Errorf("the token endpoint answered %d: %s", r.Status, r.Body)
	}
	token, _ := r.JSON()["access_token"].(string)
	return token, nil
}

// MustMint is Mint that fails the test.
func (f *Fixture) MustMint(httpsPort int) string {
	t, err := f.Mint(httpsPort)
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	gomega.ExpectWithOffset(1, t).To(gomega.HaveLen(32))
	return t
}

// Call calls the protected route.
func (f *Fixture) Call(httpPort int, token string) (*Response, error) {
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", httpPort, RoutePath), h, "")
}

// Status is the status of Call; 0 if there was no answer.
func (f *Fixture) Status(httpPort int, token string) int {
	r, err := f.Call(httpPort, token)
	if err != nil {
		return 0
	}
	return r.Status
}
