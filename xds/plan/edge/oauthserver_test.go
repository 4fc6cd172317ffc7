package edge

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// TestEnvoyKnowsTheOAuthServer: a gateway sends the credentials of clients to the
// data-plane server alone, and not to who shows a certificate of the same
// authority and the same host names, as every gateway can. Asked of a real Envoy.
func TestEnvoyKnowsTheOAuthServer(t *testing.T) {
	for name, identity := range map[string]*url.URL{
		"data plane": contract.DataPlaneURI(), "listener": nil, "node": {Scheme: "spiffe", Host: "meshgate", Path: "/cp/default/data-plane"},
	} {
		t.Run(name, func(t *testing.T) {
			authority, pair := signed(t, identity)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
			server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13} // which Envoy does not speak by itself
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			server.StartTLS()
			defer server.Close()
			w := newWorld(t)
			w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
			w.put(gateway.Routes, id(2, 0), 1, routeSpec(id(1, 0), "/a"))
			w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(t, id(2, 0), "", nil))
			params := Params{Address: "127.0.0.1", HTTPPort: freePort(t), OAuth: Endpoint{
				Host: "127.0.0.1", Port: uint32(server.Listener.Addr().(*net.TCPAddr).Port), ServerName: "localhost",
			}}
			b := bare(t)
			add(t, b, NewPlanner(params).Plan(w.state()).Set)
			for _, s := range b.StaticResources.Secrets {
				if v := s.GetValidationContext(); v != nil {
					v.TrustedCa = inlineString(authority)
				}
			}
			plantest.Run(t, write(t, b))
			res, err := http.Post("http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(int(params.HTTPPort)))+"/a/oauth2/token", "application/x-www-form-urlencoded", strings.NewReader("client_secret=x"))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got, want := res.StatusCode == http.StatusTeapot, name == "data plane"; got != want {
				t.Errorf("the request got there: %t (%d)", got, res.StatusCode)
			}
		})
	}
}

// signed is an authority and a server's certificate of it for localhost.
func signed(t *testing.T, identity *url.URL) (authority string, pair tls.Certificate) {
	t.Helper()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if identity != nil {
		leaf.URIs = []*url.URL{identity}
	}
	keys := [2]*ecdsa.PrivateKey{}
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := x509.CreateCertificate(rand.Reader, root, root, keys[0].Public(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, keys[1].Public(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: keys[1]}
}
