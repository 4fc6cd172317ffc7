package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// dataPlaneTLS returns TLS settings of a server with a self-signed certificate for this
// machine, with an identity if not nil.
func dataPlaneTLS(t *testing.T, identity *url.URL) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	if identity != nil {
		cert.URIs = []*url.URL{identity}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

// TestImpostorsGetNoToken: a server may have a certificate of the right authority and the
// right host name, as every gateway has for its listener. It is not taken for the control
// plane, and gets no token.
func TestImpostorsGetNoToken(t *testing.T) {
	for name, identity := range map[string]*url.URL{"a listener": nil, "a gateway": {Scheme: "spiffe", Host: "meshgate", Path: "/cp/default/gw"}} {
		t.Run(name, func(t *testing.T) {
			cp := controlPlaneAs(t, identity)
			asked := make(chan string, 1)
			cp.refuse.Store(new(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Authorization")
				w.WriteHeader(http.StatusForbidden)
			})))
			o, _ := cp.options(t, "gw")
			if _, err := newAgent(t, o).enrol(t.Context()); err == nil || !strings.Contains(err.Error(), "not that of a data-plane server") {
				t.Errorf("the agent says %v", err)
			}
			select {
			case token := <-asked:
				t.Errorf("the impostor was told %d bytes of a token", len(token))
			default: // the request has ended
			}
		})
	}
}
