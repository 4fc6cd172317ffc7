package oauth

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestGatewayOfCertificate: the URI in its certificate says which gateway asks. A path with a NUL, which
// others may read as the part before it, is that of no gateway.
func TestGatewayOfCertificate(t *testing.T) {
	for uri, want := range map[string]string{
		"spiffe://meshgate/cp/default/gw":          "default cp/default/gw",
		"spiffe://meshgate/cp/default%00x/gw":      " ",
		"spiffe://meshgate/cp/default/gw%00":       " ",
		"spiffe://meshgate/cp/default/gw%0Aforged": " ",
		"spiffe://meshgate/cp//gw":                 " ",
		"spiffe://meshgate/cp/default":             " ",
		"spiffe://other/cp/default/gw":             " ",
		"https://meshgate/cp/default/gw":           " ",
	} {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		leaf := &x509.Certificate{URIs: []*url.URL{u}}
		r := httptest.NewRequest("POST", "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
		if scope, node, ok := gatewayOf(r); scope+" "+node != want || ok != (want != " ") {
			t.Errorf("%s: %q of %q, %t", uri, node, scope, ok)
		}
	}
}
