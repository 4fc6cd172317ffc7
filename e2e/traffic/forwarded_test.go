package traffic_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// clientFrom is a client whose connections come from an address.
func clientFrom(address string) *http.Client {
	t := &http.Transport{
		DialContext:     (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext,
		TLSClientConfig: api.HTTP.Transport.(*http.Transport).TLSClientConfig.Clone(),
	}
	DeferCleanup(t.CloseIdleConnections)
	return &http.Client{
		Transport: t, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// claimed is what a client says of the request that it was sent.
func claimed() http.Header {
	return http.Header{
		"X-Forwarded-For": {"203.0.113.9"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"shop.example"},
		"X-Forwarded-Port": {"444"}, "X-Forwarded-Path": {"/before"}, "X-Forwarded-Prefix": {"/outer"}, "X-Real-Ip": {"203.0.113.10"},
	}
}

var _ = Describe("forwarded requests", Ordered, func() {
	var trusted, stranger *http.Client

	BeforeAll(func() {
		trusted, stranger = clientFrom(trustedProxy), clientFrom("127.0.0.3")
		b := startBackend("forwarded")
		expose("forwarded", document{"url": b.URL})
		api.Must(201, http.MethodPost, "/services/forwarded/routes", document{"paths": []string{"/secure"}, "protocols": []string{"https"}, "strip_path": false})
		api.Converged()
	})

	got := func(client *http.Client, base, path string, h http.Header) http.Header {
		r, err := framework.Do(client, http.MethodGet, base+path, h, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		return decode(r).Header
	}
	expect := func(h http.Header, want map[string]string) {
		got := map[string]string{}
		for name := range want {
			got[name] = strings.Join(h[name], " and ")
		}
		ExpectWithOffset(1, got).To(Equal(want))
	}

	It("are believed from trusted peers", func() {
		for scheme, base := range map[string]string{"http": plain(""), "https": fmt.Sprintf("https://localhost:%d", c.HTTPS)} {
			By(scheme)
			h := claimed()
			other := map[string]string{"http": "https", "https": "http"}[scheme]
			h.Set("X-Forwarded-Proto", other)
			expect(got(trusted, base, "/forwarded/x?q", h), map[string]string{
				"X-Forwarded-For": "203.0.113.9," + trustedProxy, "X-Forwarded-Proto": other, "X-Forwarded-Host": "shop.example",
				"X-Forwarded-Port": "444", "X-Forwarded-Path": "/before", "X-Forwarded-Prefix": "/outer", "X-Real-Ip": "203.0.113.9",
			})
		}
		By("of several addresses only the last is a trusted one's word")
		h := http.Header{"X-Forwarded-For": {"198.51.100.1, 203.0.113.9"}}
		expect(got(trusted, plain(""), "/forwarded/x?q", h), map[string]string{
			"X-Forwarded-For": "198.51.100.1, 203.0.113.9," + trustedProxy, "X-Real-Ip": "203.0.113.9", "X-Forwarded-Proto": "http",
			"X-Forwarded-Host": "127.0.0.1:" + strconv.Itoa(c.HTTP), "X-Forwarded-Port": strconv.Itoa(c.HTTP), "X-Forwarded-Path": "/forwarded/x",
			"X-Forwarded-Prefix": "/forwarded",
		})
	})

	It("are what the gateway saw for everybody else", func() {
		for scheme, base := range map[string]string{"http": plain(""), "https": fmt.Sprintf("https://localhost:%d", c.HTTPS)} {
			By(scheme)
			u, err := url.Parse(base)
			Expect(err).NotTo(HaveOccurred())
			h := got(stranger, base, "/forwarded/x?q", claimed())
			expect(h, map[string]string{
				"X-Forwarded-For": "127.0.0.3", "X-Forwarded-Proto": scheme, "X-Forwarded-Host": u.Host,
				"X-Forwarded-Port": u.Port(), "X-Forwarded-Path": "/forwarded/x", "X-Forwarded-Prefix": "/forwarded", "X-Real-Ip": "127.0.0.3",
			})
		}
		h := got(stranger, fmt.Sprintf("https://localhost:%d", c.HTTPS), "/secure", claimed())
		Expect(h).NotTo(HaveKey("X-Forwarded-Prefix"), "nothing was stripped")
	})

	It("count as HTTPS where a trusted peer says so", func() {
		status := func(client *http.Client, proto string) int {
			r, err := framework.Do(client, http.MethodGet, plain("/secure"), http.Header{"X-Forwarded-Proto": {proto}}, "")
			Expect(err).NotTo(HaveOccurred())
			return r.Status
		}
		Expect(status(trusted, "https")).To(Equal(200))
		Expect(status(trusted, "http")).To(Equal(426))
		Expect(status(trusted, "nonsense")).To(Equal(426))
		Expect(status(stranger, "https")).To(Equal(426))
	})

	It("obtain tokens only where the plugin and the peer permit it", func() {
		b := startBackend("tokens")
		expose("tokens", document{"url": b.URL})
		plugin := id(api.Must(201, http.MethodPost, "/services/tokens/plugins", document{"name": "oauth2", "config": document{"enable_client_credentials": true}}))
		api.Must(201, http.MethodPost, "/consumers", document{"username": "alice"})
		api.Must(201, http.MethodPost, "/consumers/alice/oauth2", document{
			"name": "app", "client_id": "app", "client_secret": "secret", "redirect_uris": []string{"https://app.example/"},
		})
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"app"}, "client_secret": {"secret"}}.Encode()
		status := func(client *http.Client, proto ...string) int {
			h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "X-Forwarded-Proto": proto, "X-Forwarded-For": {"203.0.113.9"}}
			r, err := framework.Do(client, http.MethodPost, plain("/tokens/oauth2/token"), h, form)
			Expect(err).NotTo(HaveOccurred())
			return r.Status
		}
		api.Converged()
		Expect(status(trusted, "https")).To(Equal(400), "accept_http_if_already_terminated is off")
		api.Must(200, http.MethodPatch, "/plugins/"+plugin, document{"config": document{"accept_http_if_already_terminated": true}})
		api.Converged()
		Expect(status(trusted, "https")).To(Equal(200))
		Expect(status(trusted)).To(Equal(400))
		Expect(status(trusted, "http")).To(Equal(400))
		Expect(status(trusted, "http, https")).To(Equal(400))
		Expect(status(stranger, "https")).To(Equal(400))
	})
})
