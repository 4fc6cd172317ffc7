package traffic_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("TLS to an upstream", Ordered, func() {
	var known, other *authority
	var b *backend
	var ours, theirs, certificate string

	BeforeAll(func() {
		known, other = newAuthority("known"), newAuthority("other")
		b = startSecure("secure", &tls.Config{
			Certificates: []tls.Certificate{known.issue(false, "server", "backend.test").pair()},
			ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: known.pool(), MinVersion: tls.VersionTLS12,
		})
		ours = id(api.Must(201, http.MethodPost, "/ca_certificates", document{"cert": known.text}))
		theirs = id(api.Must(201, http.MethodPost, "/ca_certificates", document{"cert": other.text}))
		certificate = id(api.Must(201, http.MethodPost, "/certificates", known.issue(false, "gateway").document()))
		pool("backend.test", nil, b.target(100))
		api.Must(200, http.MethodPatch, "/services/backend.test", document{"protocol": "https", "retries": 0})
		api.Converged()
	})

	settle := func(fields document) {
		api.Must(200, http.MethodPatch, "/services/backend.test", fields)
		api.Converged()
	}

	It("is refused where the system's authorities do not know the server", func() {
		Expect(ask("/backend.test", nil).Status).To(Equal(503))
	})

	It("is verified by the authorities of the service, and the name", func() {
		settle(document{"ca_certificates": []string{ours}})
		r := ask("/backend.test", nil)
		Expect(r.Status).To(Equal(200), r.Body)
		Expect(decode(r).Server).To(Equal("backend.test"))
		Expect(decode(r).Client).To(BeEmpty())

		settle(document{"ca_certificates": []string{theirs}})
		Expect(ask("/backend.test", nil).Status).To(Equal(503))
		settle(document{"ca_certificates": []string{theirs, ours}})
		Expect(ask("/backend.test", nil).Status).To(Equal(200))

		api.Must(200, http.MethodPatch, "/upstreams/backend.test", document{"host_header": "elsewhere.test"})
		api.Converged()
		Expect(ask("/backend.test", nil).Status).To(Equal(503), "another name")
		settle(document{"tls_verify": false})
		Expect(decode(ask("/backend.test", nil)).Host).To(Equal("elsewhere.test"))
		api.Must(200, http.MethodPatch, "/upstreams/backend.test", document{"host_header": nil})
		settle(document{"tls_verify": nil})
	})

	It("shows the client certificate of the service, or of the upstream", func() {
		settle(document{"client_certificate": document{"id": certificate}})
		Expect(decode(ask("/backend.test", nil)).Client).To(Equal("gateway"))
		second := id(api.Must(201, http.MethodPost, "/certificates", known.issue(true, "pool").document()))
		api.Must(200, http.MethodPatch, "/upstreams/backend.test", document{"client_certificate": document{"id": second}})
		api.Converged()
		Expect(decode(ask("/backend.test", nil)).Client).To(Equal("gateway"))
		settle(document{"client_certificate": nil})
		Expect(decode(ask("/backend.test", nil)).Client).To(Equal("pool"))

		By("a certificate that is written again reaches new connections")
		api.Must(200, http.MethodPatch, "/certificates/"+second, known.issue(false, "renewed").document())
		api.Converged()
		Eventually(func() string {
			b.CloseClientConnections()
			r := ask("/backend.test", nil)
			if r.Status != http.StatusOK {
				return r.Body
			}
			return decode(r).Client
		}, patience).Should(Equal("renewed"))
	})

	It("probes in TLS of its own", func() {
		api.Must(200, http.MethodPatch, "/upstreams/backend.test", document{"healthchecks": document{"active": document{
			"type": "https", "https_sni": "backend.test", "http_path": "/health",
			"healthy": document{"interval": 0.2, "successes": 1}, "unhealthy": document{"interval": 0.2, "http_failures": 1, "tcp_failures": 1},
		}}})
		api.Converged()
		Eventually(func() int { return ask("/backend.test", nil).Status }, patience).Should(Equal(200))
		api.Must(200, http.MethodPatch, "/upstreams/backend.test", document{"healthchecks": document{"active": document{"https_sni": "elsewhere.test"}}})
		api.Converged()
		Eventually(func() int { return ask("/backend.test", nil).Status }, patience).Should(Equal(503), "the server has another name")
	})

	It("needs what it names", func() {
		for path, by := range map[string]string{"/ca_certificates/" + ours: "services", "/certificates/" + certificate: ""} {
			r := api.Admin(http.MethodDelete, path, nil)
			if by == "" {
				Expect(r.Status).To(Equal(204), "nobody names it any more")
				continue
			}
			Expect(r.Status).To(Equal(400), r.Body)
			Expect(r.Body).To(ContainSubstring("an existing 'services' entity references this 'ca_certificates' entity"))
		}
		r := api.Must(400, http.MethodPatch, "/services/backend.test", document{"ca_certificates": []string{"00000000-0000-4000-8000-000000000000"}})
		Expect(r.Body).To(ContainSubstring("does not reference an existing 'ca_certificates' entity"))
	})
})

var _ = Describe("targets that are names", func() {
	It("are called by them and verified by them, whatever a client calls them", func() {
		known := newAuthority("known")
		secure := func(name string) (b *backend, target document) {
			b = startSecure(name, &tls.Config{Certificates: []tls.Certificate{known.issue(false, name, name).pair()}, MinVersion: tls.VersionTLS12})
			_, port, err := net.SplitHostPort(b.address())
			Expect(err).NotTo(HaveOccurred())
			return b, document{"target": name + ":" + port}
		}
		_, first := secure("first.localhost")
		second, other := secure("second.localhost")
		pool("named.test", nil, first, other)
		ca := id(api.Must(201, http.MethodPost, "/ca_certificates", document{"cert": known.text}))
		api.Must(200, http.MethodPatch, "/services/named.test", document{"protocol": "https", "retries": 0, "ca_certificates": []string{ca}})
		api.Must(201, http.MethodPost, "/services/named.test/routes", document{"paths": []string{"/kept"}, "preserve_host": true})
		api.Converged()
		Expect(spread("/named.test", 10, nil)).To(Equal(map[string]int{"first.localhost": 5, "second.localhost": 5}))
		for range 4 {
			r := ask("/named.test", nil)
			got := decode(r)
			Expect(got.Server).To(Equal(r.Header.Get(backendHeader)))
			Expect([]any{first["target"], other["target"]}).To(ContainElement(got.Host))
			Expect(got.Host).To(HavePrefix(got.Server + ":"))
			kept := ask("/kept", nil)
			Expect(decode(kept).Server).To(Equal(kept.Header.Get(backendHeader)))
			Expect(decode(kept).Host).To(Equal(fmt.Sprintf("127.0.0.1:%d", c.HTTP)), "the client's")
		}

		By("a target that shows the certificate of another")
		_, port, err := net.SplitHostPort(second.address())
		Expect(err).NotTo(HaveOccurred())
		api.Must(201, http.MethodPost, "/upstreams/named.test/targets", document{"target": "third.localhost:" + port})
		api.Converged()
		Expect(spread("/named.test", 12, nil)).To(Equal(map[string]int{"first.localhost": 4, "second.localhost": 4, "503": 4}))

		By("probes that are judged")
		api.Must(200, http.MethodPatch, "/upstreams/named.test", document{"healthchecks": document{"active": document{
			"type": "https", "http_path": "/health",
			"healthy": document{"interval": 0.2, "successes": 1}, "unhealthy": document{"interval": 0.2, "http_failures": 1, "tcp_failures": 1},
		}}})
		api.Converged()
		Eventually(func() map[string]int { return spread("/named.test", 12, nil) }, patience).
			Should(Equal(map[string]int{"first.localhost": 6, "second.localhost": 6}))
		Eventually(func() map[string]any {
			states := map[string]any{}
			for _, one := range api.Must(200, http.MethodGet, "/upstreams/named.test/health", nil).JSON()["data"].([]any) {
				states[one.(document)["target"].(string)] = one.(document)["health"]
			}
			return states
		}, patience).Should(Equal(map[string]any{
			first["target"].(string): "HEALTHY", other["target"].(string): "HEALTHY", "third.localhost:" + port: "UNHEALTHY",
		}))
	})
})
