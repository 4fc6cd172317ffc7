package framework

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"time"

	"github.com/onsi/gomega"
)

// Certificate makes a certificate for a host that nobody but itself vouches for, with its
// key, in PEM.
func Certificate(host string) (certificate, key string) {
	return selfSigned(&x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour),
	})
}

// MeshRoot makes the root of a mesh, as certificate and key in PEM.
func MeshRoot(mesh string) (certificate, key string) {
	return selfSigned(&x509.Certificate{
		Subject: pkix.Name{CommonName: mesh}, URIs: []*url.URL{{Scheme: "spiffe", Host: mesh}}, NotAfter: time.Now().Add(time.Hour * 24 * 365),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	})
}

func selfSigned(template *x509.Certificate) (certificate, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	gomega.ExpectWithOffset(2, err).NotTo(gomega.HaveOccurred())
	template.SerialNumber, template.NotBefore = big.NewInt(1), time.Now().Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	gomega.ExpectWithOffset(2, err).NotTo(gomega.HaveOccurred())
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	gomega.ExpectWithOffset(2, err).NotTo(gomega.HaveOccurred())
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}
