package meshca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Sizes of RSA roots.
const (
	minRSABits = 2048
	maxRSABits = 4096
)

// GenerateRoot makes the self-signed root of a builtin backend, valid from now:
// P-256, or RSA of conf.caCert.RSAbits; for conf.caCert.expiration or 10 years.
// A conf that is out of range is an Invalid error.
func GenerateRoot(meshName, backend string, conf *mesh.AuthorityConf) (certPEM, keyPEM []byte, err error) {
	life, bits := identity.AuthorityLife, uint32(0)
	if conf != nil && conf.CACert != nil {
		if e := conf.CACert.Expiration; e != "" {
			if life, err = mesh.Lifetime(e); err != nil {
				return nil, nil, err
			}
		}
		if b := conf.CACert.RSABits; b != nil {
			if bits = *b; bits < minRSABits || bits > maxRSABits {
				return nil, nil, fault.New(fault.Invalid, "RSA keys of backend %q have %d to %d bits", backend, minRSABits, maxRSABits)
			}
		}
	}
	var key crypto.Signer
	if bits != 0 {
		key, err = rsa.GenerateKey(rand.Reader, int(bits))
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, nil, err
	}
	return selfSign(meshName, time.Now(), life, key)
}

func selfSign(meshName string, now time.Time, life time.Duration, key crypto.Signer) (certPEM, keyPEM []byte, err error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: meshName},
		URIs:      []*url.URL{{Scheme: "spiffe", Host: meshName}},
		NotBefore: now.Add(-identity.Backdate), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	text, err := pemtext.Key(key)
	if err != nil {
		return nil, nil, err
	}
	return pemtext.Certificate(der), text, nil
}
