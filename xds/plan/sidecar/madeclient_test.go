package sidecar_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"time"

	"github.com/meshgate/meshgate/xds/pemtext"
)

// madeClient returns a certificate for clients and its key, in PEM. Both are the same each time, because golden
// files have digests of them: the key is made of the name, and its signature needs no random number.
func madeClient(name string) string {
	scalar := sha256.Sum256([]byte(name))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar[:])
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(nil, c, c, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	secret, err := pemtext.Key(key)
	if err != nil {
		panic(err)
	}
	return string(pemtext.Certificate(der)) + string(secret)
}
