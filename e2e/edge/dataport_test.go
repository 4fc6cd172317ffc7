package edge_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/golang-jwt/jwt/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/e2e/framework"
)

// forger makes certificates that look like those of the control plane but are
// signed by a key of its own.
type forger struct {
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
}

func newForger() *forger {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Meshgate certificate authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	ca, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return &forger{ca, key}
}

// gateway is a client certificate with the name of the real gateway.
func (o *forger) gateway() tls.Certificate {
	u, err := url.Parse("spiffe://meshgate/cp/default/gateway-1")
	Expect(err).NotTo(HaveOccurred())
	t := &x509.Certificate{
		SerialNumber: big.NewInt(2), URIs: []*url.URL{u}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, o.ca, o.key.Public(), o.key)
	Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der, o.ca.Raw}, PrivateKey: o.key}
}

func dataClient(certificates ...tls.Certificate) *http.Client {
	// GetClientCertificate, since a client otherwise keeps back what the server's
	// list of authorities does not name.
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots(), MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certificates[0], nil
		},
	}}
	DeferCleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: rawDeadline}
}

func dataURL(path string) string { return fmt.Sprintf("https://127.0.0.1:%d%s", c.Data, path) }

// nodeToken asks for the token of a gateway instance.
func nodeToken(name string) string {
	file := filepath.Join(GinkgoT().TempDir(), "token")
	f.WriteGatewayToken(name, file)
	token, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(token))
}

// forgeries are tokens that resemble a real one, by what is wrong with them.
func forgeries(real string) map[string]string {
	claims := jwt.MapClaims{}
	parsed, _, err := jwt.NewParser().ParseUnverified(real, claims)
	Expect(err).NotTo(HaveOccurred())
	sign := func(m jwt.SigningMethod, key any, change func(jwt.MapClaims)) string {
		own := jwt.MapClaims{}
		for k, v := range claims {
			own[k] = v
		}
		if change != nil {
			change(own)
		}
		t := jwt.NewWithClaims(m, own)
		t.Header["kid"] = parsed.Header["kid"]
		text, err := t.SignedString(key)
		Expect(err).NotTo(HaveOccurred())
		return text
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	Expect(err).NotTo(HaveOccurred())
	authority, err := os.ReadFile(c.CAFile())
	Expect(err).NotTo(HaveOccurred())
	parts := strings.Split(real, ".")
	return map[string]string{
		"none":              "",
		"no JWT":            "x",
		"a foreign key":     sign(jwt.SigningMethodRS256, key, nil),
		"no algorithm":      sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
		"a public secret":   sign(jwt.SigningMethodHS256, authority, nil),
		"an empty secret":   sign(jwt.SigningMethodHS256, []byte{}, nil),
		"no signature":      parts[0] + "." + parts[1] + ".",
		"a cut signature":   real[:len(real)-4],
		"a client's token":  f.MustMint(c.HTTPS),
		"a very long one":   real + strings.Repeat("x", 10<<10),
		"two in one header": real + "," + real,
	}
}

var _ = Describe("the data-plane port", func() {
	It("serves the OAuth endpoints to gateways only", func() {
		header := http.Header{"Content-Type": {formType}, "X-Meshgate-Oauth": {f.Plugin}, "X-Meshgate-Scheme": {"https"}}
		for _, path := range []string{"/api/oauth2/token", "/api/oauth2/authorize", "/", "/oauth2/token"} {
			r, err := framework.Do(dataClient(), http.MethodPost, dataURL(path), header, form())
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(403), path)
			Expect(r.Body).NotTo(ContainSubstring("access_token"))
		}
		r, err := framework.Do(dataClient(newForger().gateway()), http.MethodPost, dataURL("/api/oauth2/token"), header, form())
		Expect(err).To(HaveOccurred(), "a certificate of another authority got %+v", r)
		Expect(err.Error()).To(ContainSubstring("tls:"), "refused by the handshake")
	})

	It("speaks neither plain HTTP nor TLS below 1.2", func() {
		r, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/api/oauth2/token", c.Data), nil, form())
		if err == nil {
			Expect(r.Status).To(Equal(400), r.Body)
		}
		_, err = tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.Data), &tls.Config{RootCAs: roots(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
		Expect(err).To(MatchError(ContainSubstring("protocol version")))
	})

	It("enrols and links nodes with their own token only", func() {
		// The instance that the real token names does not run: an enrolment
		// changes nothing here.
		token := nodeToken("edge-probe")
		body := fmt.Sprintf(`{"listen":"127.0.0.1","http_port":1,"https_port":2,"control_plane":"127.0.0.1:%d"}`, c.Data)
		bootstrap := func(authorization string) int {
			h := http.Header{"Content-Type": {"application/json"}}
			if authorization != "" {
				h.Set("Authorization", authorization)
			}
			r, err := framework.Do(dataClient(), http.MethodPost, dataURL("/bootstrap"), h, body)
			ExpectWithOffset(1, err).NotTo(HaveOccurred())
			if r.Status != 200 {
				ExpectWithOffset(1, r.Body).NotTo(ContainSubstring("redis"))
			}
			return r.Status
		}
		link := func(authorization string) int {
			req, err := http.NewRequest(http.MethodGet, dataURL("/link"), nil)
			ExpectWithOffset(1, err).NotTo(HaveOccurred())
			req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"meshgate-link"}}
			if authorization != "" {
				req.Header.Set("Authorization", authorization)
			}
			resp, err := dataClient().Do(req)
			ExpectWithOffset(1, err).NotTo(HaveOccurred())
			ExpectWithOffset(1, resp.Body.Close()).To(Succeed())
			return resp.StatusCode
		}
		for what, forged := range forgeries(token) {
			for _, scheme := range []string{"Bearer ", "", "Basic "} {
				Expect(bootstrap(strings.TrimSpace(scheme+forged))).To(Equal(401), what)
				Expect(link(strings.TrimSpace(scheme+forged))).To(Equal(401), what)
			}
		}
		Expect(link("Bearer " + token)).To(Equal(101))
		Expect(bootstrap("Bearer " + token)).To(Equal(200))
	})

	It("answers ADS with the code that fits", func() {
		conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///127.0.0.1:%d", c.Data),
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots(), ServerName: "localhost", MinVersion: tls.VersionTLS12})))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		const listener = "type.googleapis.com/envoy.config.listener.v3.Listener"
		ask := func(node, typeURL string, authorization ...string) error {
			ctx, cancel := context.WithTimeout(context.Background(), rawDeadline)
			defer cancel()
			for _, a := range authorization {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", a)
			}
			stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
			Expect(err).NotTo(HaveOccurred())
			// An error of Send is told by Recv.
			_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: node}, TypeUrl: typeURL, ResourceNamesSubscribe: []string{"*"}})
			m, err := stream.Recv()
			if typeURL != listener {
				Expect(m.GetResources()).To(BeEmpty(), "a type that is not served")
			}
			return err
		}
		code := func(node, typeURL string, authorization ...string) codes.Code {
			return status.Code(ask(node, typeURL, authorization...))
		}
		token := nodeToken("edge-probe-2")
		const own, others = "cp/default/edge-probe-2", "cp/default/gateway-1"
		Expect(code(others, listener)).To(Equal(codes.Unauthenticated), "no token")
		Expect(code(others, listener, "Bearer "+token)).To(Equal(codes.PermissionDenied), "another node's token")
		Expect(code("", listener, "Bearer "+token)).To(Equal(codes.InvalidArgument), "no node")
		Expect(code("cp/other/edge-probe-2", listener, "Bearer "+token)).To(Equal(codes.PermissionDenied), "another control plane")
		Expect(code(own, listener, "Bearer "+token, "Bearer "+token)).To(Equal(codes.Unauthenticated), "two tokens")
		Expect(code(own, listener, "Bearer "+token)).To(Equal(codes.NotFound), "a node that never enrolled")
		for what, forged := range forgeries(token) {
			Expect(code(own, listener, "Bearer "+forged)).To(Equal(codes.Unauthenticated), what)
		}
		enrolment := fmt.Sprintf(`{"listen":"127.0.0.1","http_port":1,"https_port":2,"control_plane":"127.0.0.1:%d"}`, c.Data)
		r, err := framework.Do(dataClient(), http.MethodPost, dataURL("/bootstrap"), http.Header{"Authorization": {"Bearer " + token}}, enrolment)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		Expect(code(own, listener, "Bearer "+token)).To(Equal(codes.OK), "once it has enrolled")
		Expect(code(others, listener, "Bearer "+token)).To(Equal(codes.PermissionDenied), "another node's token, still")
		Expect(code(own, "type.googleapis.com/google.protobuf.Struct", "Bearer "+token)).To(Equal(codes.OK), "an unknown type is answered with nothing")
		for _, method := range []string{
			"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus",
			"/envoy.service.discovery.v3.AggregatedDiscoveryService/Unknown",
		} {
			err := conn.Invoke(context.Background(), method, &discoveryv3.DiscoveryRequest{}, &discoveryv3.DiscoveryResponse{})
			Expect(status.Code(err)).To(Equal(codes.Unimplemented), method)
		}
	})
})
