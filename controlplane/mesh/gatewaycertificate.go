package mesh

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// ServerCertificate describes a secret that listeners of gateways present. It holds no key.
type ServerCertificate struct {
	// Generation is another one for another certificate.
	Generation string
	// Wrong says why the secret cannot be presented, empty if it can.
	Wrong string
}

// servers begins the names of the certificates of listeners.
const servers = "gateway_cert:secret:"

// SecretServer returns the name by which proxies ask for the certificate in a secret. It stays the
// same when the certificate is exchanged, so no connection is closed then.
func SecretServer(secret string) string { return servers + secret }

// ParseServer returns the secret in a name of [SecretServer].
func ParseServer(name string) (secret string, ok bool) { return strings.CutPrefix(name, servers) }

// ServerPair returns what a secret of a mesh holds: a certificate chain with its key. Its errors
// are those of [Load], and those about the content, which quote nothing of it.
func ServerPair(r model.Getter, meshName, secret string) (*ClientPair, error) {
	data, err := Load(r, meshName, &DataSource{Secret: secret})
	if err != nil {
		return nil, err
	}
	return clientPair(data, data)
}

// ServerCertificateOf describes a secret of a mesh, and returns what is in it, nil if nothing can be
// presented. It fails if the secret cannot be read now.
func ServerCertificateOf(r model.Getter, meshName, secret string) (ServerCertificate, *ClientPair, error) {
	pair, err := ServerPair(r, meshName, secret)
	if f, is := errors.AsType[*fault.Error](err); is && (f.Code == fault.Invalid || f.Code == fault.NotFound || f.Code == fault.TooLarge) {
		return ServerCertificate{Wrong: f.Detail}, nil, nil
	}
	if err != nil {
		return ServerCertificate{}, nil, err
	}
	return ServerCertificate{Generation: pair.Generation()}, pair, nil
}

// Generation differs for different chains. A certificate has one key, so the chain tells all of
// the content.
func (p *ClientPair) Generation() string {
	sum := sha256.Sum256(p.Chain)
	return hex.EncodeToString(sum[:16])
}
