package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"time"
)

// root is a certificate authority that replaces the one of the mesh.
type root struct {
	cert            *x509.Certificate
	certPEM, keyPEM []byte
}

func newRoot(serial int64) (*root, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: fmt.Sprintf("%s root %d", meshName, serial)},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		URIs: []*url.URL{{Scheme: "spiffe", Host: meshName}},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &root{
		cert: cert, certPEM: pemCertificate(der),
		keyPEM: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}

// rotate replaces the builtin authority of the mesh: the key, then the
// certificate. A control plane has to bear that they do not fit in between.
func (b *bench) rotate(ctx context.Context, r *root) error {
	for _, s := range []struct {
		name string
		data []byte
	}{{meshName + ".ca-builtin-key-" + backendName, r.keyPEM}, {meshName + ".ca-builtin-cert-" + backendName, r.certPEM}} {
		doc := object{"type": "Secret", "mesh": meshName, "name": s.name, "data": s.data}
		if _, err := b.plane.call(ctx, http.MethodPut, "/meshes/"+meshName+"/secrets/"+s.name, doc); err != nil {
			return err
		}
	}
	return nil
}

// carries reports whether a secret is an identity that the root has signed, or a
// bundle with the root and no other certificate.
func (r *root) carries(secret []byte) (bool, error) {
	chain, bundle, err := pemOf(secret)
	if err != nil {
		return false, err
	}
	if len(bundle) > 0 {
		certs, err := certificates(bundle)
		return err == nil && len(certs) == 1 && bytes.Equal(certs[0].Raw, r.cert.Raw), err
	}
	if len(chain) == 0 {
		return false, errors.New("a secret with neither a certificate nor a bundle")
	}
	certs, err := certificates(chain)
	if err != nil {
		return false, err
	}
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	o.Roots.AddCert(r.cert)
	for _, c := range certs[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err = certs[0].Verify(o)
	return err == nil, nil
}

func certificates(data []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("no certificate in the PEM data")
	}
	return out, nil
}

func poolOf(data []byte) (*x509.CertPool, error) {
	certs, err := certificates(data)
	if err != nil {
		return nil, err
	}
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p, nil
}

func pemCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
