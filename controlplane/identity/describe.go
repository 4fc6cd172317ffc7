package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Described is the public information about a certificate and its key.
type Described struct {
	// Name is the beginning of the SHA-256 of the certificate, in hex.
	Name, Algorithm  string
	NotBefore, Until time.Time
}

// Describe reads the first certificate of a PEM text.
func Describe(certPEM []byte) (Described, error) {
	cert, err := pemtext.Leaf(certPEM)
	if err != nil {
		return Described{}, err
	}
	algorithm := cert.PublicKeyAlgorithm.String()
	switch key := cert.PublicKey.(type) {
	case *ecdsa.PublicKey:
		algorithm = "ECDSA " + key.Params().Name
	case *rsa.PublicKey:
		algorithm = fmt.Sprintf("RSA %d", key.N.BitLen())
	case ed25519.PublicKey:
		algorithm = "Ed25519"
	}
	return Described{Issuer(certPEM)[:16], algorithm, cert.NotBefore, cert.NotAfter}, nil
}

// ListenerCertificate describes the certificate of the gateways' public listener, and
// returns when it is renewed. It fails with NotFound before the first gateway has come.
func ListenerCertificate(ctx context.Context, s store.Store) (d Described, renewed time.Time, err error) {
	err = s.View(ctx, func(r store.Reader) error {
		res, err := r.Get(Keys, "", keyGateway)
		if err == nil {
			d, err = Describe(res.Spec.(*KeyPair).Certificate)
		}
		return err
	})
	return d, d.Until.Add(-listenerLife / 3), err
}

// Issuer identifies an authority by the SHA-256 of its first certificate in hex. It returns
// "" if there is no certificate.
func Issuer(certPEM []byte) string {
	for block := range pemtext.Blocks(certPEM) {
		if block.Type == pemtext.TypeCertificate {
			sum := sha256.Sum256(block.Bytes)
			return hex.EncodeToString(sum[:])
		}
	}
	return ""
}
