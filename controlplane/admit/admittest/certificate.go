package admittest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/pemtext"
)

// Certificate makes a certificate that is valid for an hour, and its key, both in PEM.
func Certificate(t testing.TB) (cert, key string) { return issue(t, &x509.Certificate{}) }

// Authority makes the certificate of an authority that is valid for an hour, in PEM.
func Authority(t testing.TB) string {
	cert, _ := issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	return cert
}

func issue(t testing.TB, template *x509.Certificate) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotAfter = big.NewInt(1), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pemtext.Key(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pemtext.Certificate(der)), string(text)
}
