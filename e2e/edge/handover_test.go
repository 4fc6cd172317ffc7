package edge_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

const formType = "application/x-www-form-urlencoded"

// form asks for a token as the fixture's application.
func form() string {
	return url.Values{"grant_type": {"client_credentials"}, "client_id": {framework.ClientID}, "client_secret": {framework.ClientSecret}}.Encode()
}

// clients are HTTP clients by protocol, with the base URL at which they start.
func clients() map[string]struct {
	*http.Client
	base string
} {
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	h2 := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: f.HTTP.Transport.(*http.Transport).TLSClientConfig.Clone()}
	h2.Protocols.SetHTTP2(true)
	DeferCleanup(h2c.CloseIdleConnections)
	DeferCleanup(h2.CloseIdleConnections)
	plain, secure := fmt.Sprintf("http://127.0.0.1:%d", c.HTTP), fmt.Sprintf("https://localhost:%d", c.HTTPS)
	return map[string]struct {
		*http.Client
		base string
	}{
		"HTTP/1.1":          {f.HTTP, plain},
		"HTTP/1.1 over TLS": {f.HTTP, secure},
		"HTTP/2":            {&http.Client{Transport: h2c, Timeout: rawDeadline}, plain},
		"HTTP/2 over TLS":   {&http.Client{Transport: h2, Timeout: rawDeadline}, secure},
	}
}

// claims returns hand-over headers as a client would send them, in every
// mixture of separators.
func claims(of map[string]string) http.Header {
	h := http.Header{}
	for name, value := range of {
		for _, spelling := range []string{name, strings.ReplaceAll(name, "-", "_"), strings.Replace(name, "-", "_", 1), strings.Replace(name, "h-", "h_", 1)} {
			// Not canonical: HTTP/1 sends a name as it is, HTTP/2 in lower case.
			h[spelling] = []string{value}
		}
	}
	return h
}

var _ = Describe("the hand-over to the OAuth server", Ordered, func() {
	var other string // a plugin on a service of its own

	BeforeAll(func() {
		f.Must(201, http.MethodPost, "/services", map[string]any{"name": "handover", "host": "127.0.0.1", "port": guarded.port()})
		f.Must(201, http.MethodPost, "/services/handover/routes", map[string]any{"name": "handover", "paths": []string{"/handover"}})
		p := f.Must(201, http.MethodPost, "/services/handover/plugins", map[string]any{"name": "oauth2", "config": map[string]any{
			"enable_client_credentials": true, "accept_http_if_already_terminated": true, "global_credentials": true, "auth_header_name": "x-other",
		}})
		other, _ = p.JSON()["id"].(string)
		f.Converged()
	})

	It("cannot be claimed on a guarded path or on an open one", func() {
		for name, client := range clients() {
			By(name)
			h := claims(map[string]string{"x-meshgate-oauth": f.Plugin, "x-meshgate-scheme": "https", "x-meshgate-service": "x", "x-meshgate-client": trustedProxy, "x-meshgate-proto": "https"})
			h.Set("Content-Type", formType)
			for path, want := range map[string]string{"/api/x": "The access token is missing", "/open/oauth2/token": `"Upstream":"open"`, "/nowhere/oauth2/token": "no Route matched"} {
				r, err := framework.Do(client.Client, http.MethodPost, client.base+path, h, form())
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Body).To(ContainSubstring(want), path)
				Expect(r.Body).NotTo(ContainSubstring("access_token\":"), path)
				Expect(strings.ToLower(r.Body)).NotTo(ContainSubstring("meshgate-"), "nothing of it is passed on")
			}
		}
	})

	It("is no more to a client that names the plugin, however it spells that and as often as it likes", func() {
		asked := func() string {
			GinkgoHelper()
			text, err := framework.EnvoyAdmin(c.StateDir, "/stats?filter=^cluster\\.oauth2\\.upstream_rq_total$")
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(HavePrefix("cluster.oauth2.upstream_rq_total: "))
			return text
		}
		before := asked()
		for name, client := range clients() {
			By(name)
			for _, spelling := range []string{"x-meshgate-oauth", "X-Meshgate-OAuth", "x_meshgate_oauth", "X_MESHGATE-oauth", "x-meshgate_oauth", "meshgate.oauth"} {
				for _, values := range [][]string{{f.Plugin}, {f.Plugin, f.Plugin}, {"", f.Plugin}, {"handed-over"}} {
					h := http.Header{spelling: values, "Content-Type": {formType}}
					for path, want := range map[string]string{"/api/x": "The access token is missing", "/open/oauth2/token": `"Upstream":"open"`, "/nowhere/oauth2/token": "no Route matched"} {
						r, err := framework.Do(client.Client, http.MethodPost, client.base+path, h, form())
						Expect(err).NotTo(HaveOccurred())
						Expect(r.Body).To(ContainSubstring(want), "%s %q", path, h)
						if spelling != "meshgate.oauth" { // a header like any other
							Expect(strings.ToLower(r.Body)).NotTo(MatchRegexp("meshgate[-_]oauth"), "%s %q", path, h)
						}
					}
				}
			}
		}
		Expect(asked()).To(Equal(before), "the OAuth server was asked")
	})

	It("names the plugin and the service of the route, whatever the client names", func() {
		service := f.Must(200, http.MethodGet, "/services/api", nil).JSON()["id"]
		for name, client := range clients() {
			if !strings.HasPrefix(client.base, "https") {
				continue
			}
			By(name)
			h := claims(map[string]string{"x-meshgate-oauth": other, "x-meshgate-service": "00000000-0000-4000-8000-000000000000"})
			h.Set("Content-Type", formType)
			r, err := framework.Do(client.Client, http.MethodPost, client.base+"/api/oauth2/token", h, form())
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200), r.Body)
			token, _ := r.JSON()["access_token"].(string)
			got := f.Must(200, http.MethodGet, "/oauth2_tokens/"+token, nil).JSON()
			Expect(got["service"]).To(Equal(map[string]any{"id": service}), "the other plugin would have issued a global token")
		}
	})

	It("tells the scheme of the connection, whatever the client claims", func() {
		for name, client := range clients() {
			if strings.HasPrefix(client.base, "https") {
				continue
			}
			By(name)
			h := claims(map[string]string{"x-meshgate-scheme": "https", "x-meshgate-client": trustedProxy, "x-meshgate-proto": "https"})
			for _, k := range []string{"Content-Type", "X-Forwarded-Proto", "X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Forwarded-Ssl", "Front-End-Https", "X-Envoy-External-Address"} {
				h.Set(k, trustedProxy)
			}
			h.Set("Content-Type", formType)
			h.Set("X-Forwarded-Proto", "https")
			h.Set("Forwarded", "for="+trustedProxy+";proto=https")
			for _, path := range []string{"/api/oauth2/token", "/handover/oauth2/token"} {
				r, err := framework.Do(client.Client, http.MethodPost, client.base+path, h, form())
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Status).To(Equal(400), path)
				Expect(r.JSON()).To(HaveKeyWithValue("error_description", "You must use HTTPS"))
			}
		}
		// The scheme of an absolute target is the client's word too.
		got := exchange(listeners["plain TCP"], request("POST", "https://localhost/api/oauth2/token",
			[]string{"Host: localhost", "Content-Type: " + formType, fmt.Sprintf("Content-Length: %d", len(form()))}, form()))
		Expect(statuses(got)).To(Equal([]int{403}))
	})
})
