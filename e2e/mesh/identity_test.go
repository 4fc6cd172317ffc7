package mesh_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// decode reads the answer of a workload.
func decode(r *http.Response) framework.Received {
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return (&framework.Response{Status: r.StatusCode, Header: r.Header, Body: string(body)}).Received()
}

// root is an authority of the test.
type root struct {
	cert             *x509.Certificate
	key              *ecdsa.PrivateKey
	certPEM, keyPEM  []byte
	certData, keyB64 string
}

func newRoot() *root {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	t := template()
	t.Subject, t.URIs = pkix.Name{CommonName: shop}, []*url.URL{{Scheme: "spiffe", Host: shop}}
	t.IsCA, t.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	r := &root{key: key}
	r.cert, err = x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	r.certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	r.keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	r.certData, r.keyB64 = base64.StdEncoding.EncodeToString(r.certPEM), base64.StdEncoding.EncodeToString(r.keyPEM)
	return r
}

func template() *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	Expect(err).NotTo(HaveOccurred())
	return &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
	}
}

// leaf signs an identity.
func (r *root) leaf(identity string) *tls.Certificate {
	return r.usable(identity, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)
}

// usable does what leaf does, for a certificate that may be shown for some purposes only.
func (r *root) usable(identity string, usages ...x509.ExtKeyUsage) *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	u, err := url.Parse(identity)
	Expect(err).NotTo(HaveOccurred())
	t := template()
	t.URIs, t.KeyUsage = []*url.URL{u}, x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = usages
	der, err := x509.CreateCertificate(rand.Reader, t, r.cert, key.Public(), r.key)
	Expect(err).NotTo(HaveOccurred())
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// handshake makes a request over TLS to the proxy of a mesh, which shows in its
// first answer whether it takes the client's certificate. Who the proxy is does
// not matter here.
func handshake(address string, identity *tls.Certificate) error {
	cfg := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"mesh"}}
	if identity != nil {
		cfg.Certificates = []tls.Certificate{*identity}
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: backend\r\nConnection: close\r\n\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) {
		return errors.New("not an HTTP answer")
	}
	return nil
}

// rotate replaces the authority of the mesh, first its key and then its
// certificate, which do not fit together in between.
func (w *world) rotate(to *root) {
	w.Put("secrets", framework.Document{"type": "Secret", "mesh": shop, "name": shop + ".ca-builtin-key-ca-1", "data": to.keyB64})
	w.Put("secrets", framework.Document{"type": "Secret", "mesh": shop, "name": shop + ".ca-builtin-cert-ca-1", "data": to.certData})
}

// trust is what a proxy holds: its certificate, and the roots that it trusts.
func (m *member) trust() (identity *x509.Certificate, roots []*x509.Certificate) {
	text, err := m.Admin("/config_dump")
	Expect(err).NotTo(HaveOccurred())
	var dump struct {
		Configs []struct {
			Active []struct {
				Name   string
				Secret struct {
					Certificate struct {
						Chain inline `json:"certificate_chain"`
					} `json:"tls_certificate"`
					Validation struct {
						Trusted inline `json:"trusted_ca"`
					} `json:"validation_context"`
				}
			} `json:"dynamic_active_secrets"`
		}
	}
	Expect(json.Unmarshal([]byte(text), &dump)).To(Succeed())
	for _, c := range dump.Configs {
		for _, s := range c.Active {
			switch s.Name {
			case "identity_cert:secret:" + shop:
				identity = parse(s.Secret.Certificate.Chain.Bytes)[0]
			case "mesh_ca:secret:" + shop:
				roots = parse(s.Secret.Validation.Trusted.Bytes)
			}
		}
	}
	return identity, roots
}

type inline struct {
	Bytes []byte `json:"inline_bytes"`
}

func parse(data []byte) (out []*x509.Certificate) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		Expect(err).NotTo(HaveOccurred())
		out = append(out, c)
	}
	Expect(out).NotTo(BeEmpty())
	return out
}

// writeFile writes a file that only the test may read.
func writeFile(path string, data []byte) {
	ExpectWithOffset(1, os.WriteFile(path, data, 0o600)).To(Succeed())
}
