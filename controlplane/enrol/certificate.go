package enrol

import (
	"context"
	"crypto/x509"
	"net/http"
	"path"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/filter/contract"
)

// Certify asks for the token of a gateway by the client certificate of client, which offers
// [contract.ProtocolCertificate]. Of node, its instance counts. The control plane is the one that is named,
// by its name or its id, and has to list the certificate. Errors are those of [Enrol].
func Certify(ctx context.Context, client *http.Client, base, node, named string) (string, error) {
	return renew(ctx, client, base, http.Header{contract.NodeHeader: {node}, NamedHeader: {named}})
}

// shownBy returns the client certificate whose key the client of a request has proved in the handshake,
// nil for none. It need not be of any authority.
func shownBy(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	return r.TLS.PeerCertificates[0]
}

// certify issues the token of a gateway by its client certificate. A token beside it must be one of
// the same certificate.
func (s *Server) certify(r *http.Request, cert *x509.Certificate) (string, error) {
	node := r.Header.Get(contract.NodeHeader)
	var token string
	plane, err := s.asked(r)
	if err == nil {
		token, _, err = s.Tokens.Certified(r.Context(), cert, plane, path.Base(node))
	}
	if shown := bearer(r); err == nil && shown != "" {
		var other *identity.Claims
		if other, err = s.Tokens.Check(r.Context(), shown); err == nil {
			err = other.Shows(cert)
		}
	}
	if err != nil {
		s.refused(node, err)
		return "", denied(err)
	}
	return token, nil
}

// asked returns the scope of the control plane that a gateway with a client certificate names. The
// certificate alone does not say which it is, because others may list it, too. A name that nobody has lists
// nothing.
func (s *Server) asked(r *http.Request) (scope string, err error) {
	named := r.Header.Get(NamedHeader)
	if named == "" {
		return "", fault.New(fault.Invalid, "a gateway with a client certificate has to name its control plane (--control-plane)")
	}
	if s.Plane == nil {
		return named, nil
	}
	if scope, err = s.Plane(r.Context(), named); fault.Is(err, fault.NotFound) {
		return named, nil
	}
	return scope, err
}

// uncertified refuses a client certificate beside a request that is not one of a gateway.
func uncertified(r *http.Request) error {
	if shownBy(r) == nil {
		return nil
	}
	return fault.New(fault.Denied, "client certificates are for gateways: proxies of meshes and zones have tokens")
}

// what names what a gateway has shown, in texts about it.
func what(c *identity.Claims) string {
	if c.Certificate != "" {
		return "client certificate"
	}
	return "node token"
}

// bearer returns the token of a request, empty if there is none.
func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
