package loop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/gateway"
	"github.com/meshgate/meshgate/xds/resource"
)

// Pair is a certificate chain with its key, both PEM.
type Pair struct{ Certificate, Key []byte }

// Identities issues what secrets contain.
type Identities interface {
	// Server is the certificate of the gateway's HTTPS listener.
	Server(ctx context.Context) (Pair, error)
	// Node is the client certificate of a gateway.
	Node(ctx context.Context, node string) (Pair, error)
	// Workload is the certificate of a proxy of a mesh.
	Workload(ctx context.Context, mesh, dataplane string) (Pair, error)
	// Certificate is a certificate of a control plane, or its alternative pair.
	Certificate(ctx context.Context, controlPlane, id string, alternative bool) (Pair, error)
	// Roots is the PEM bundle that validates the control plane.
	Roots(ctx context.Context) ([]byte, error)
}

// Secret makes a secret for a connected node on subscription: Forbidden if the
// node's set does not name it. What is returned was checked to parse, because
// Envoy puts a secret that it refuses into its error text and its log in clear.
// Errors never contain key material.
func (l *Loop) Secret(ctx context.Context, id, name string) (*resource.Resource, error) {
	l.mu.Lock()
	n := l.nodes[id]
	allowed := n != nil && n.plane.set(id).AllowsSecret(name)
	l.mu.Unlock()
	switch {
	case n == nil:
		return nil, errUnknown(id)
	case !allowed:
		return nil, fault.New(fault.Forbidden, "node %s may not have secret %s", id, name)
	}
	s, err := l.secret(ctx, id, name)
	if err != nil {
		return nil, fmt.Errorf("secret %s of node %s: %w", name, id, err)
	}
	return plan.Freeze(resource.Secret, name, s)
}

func (l *Loop) secret(ctx context.Context, id, name string) (*tlsv3.Secret, error) {
	switch name {
	case gateway.SecretServer:
		p, err := l.Identities.Server(ctx)
		if err != nil {
			return nil, err
		}
		return certificate(name, p)
	case gateway.SecretIdentity:
		p, err := l.Identities.Node(ctx, id)
		if err != nil {
			return nil, err
		}
		return certificate(name, p)
	case gateway.SecretCA:
		bundle, err := l.Identities.Roots(ctx)
		if err != nil {
			return nil, err
		}
		return roots(name, bundle)
	}
	if certificate, alternative, ok := gateway.ParseCertificate(name); ok {
		return l.stored(ctx, id, name, certificate, alternative)
	}
	meshName, dataplane, err := ParseProxy(id)
	if err != nil || name != mesh.SecretIdentity(meshName) {
		return nil, fault.New(fault.NotFound, "no such secret")
	}
	p, err := l.Identities.Workload(ctx, meshName, dataplane)
	if err != nil {
		return nil, err
	}
	return certificate(name, p)
}

// stored is a certificate that users gave. It is shown even if it has expired:
// clients tell their users so, and without it there is no connection at all.
func (l *Loop) stored(ctx context.Context, node, name, id string, alternative bool) (*tlsv3.Secret, error) {
	controlPlane, _, err := ParseNode(node)
	if err != nil {
		return nil, fault.New(fault.NotFound, "no such secret")
	}
	p, err := l.Identities.Certificate(ctx, controlPlane, id, alternative)
	if err != nil {
		return nil, err
	}
	if _, err := tls.X509KeyPair(p.Certificate, p.Key); err != nil {
		return nil, errNoPair
	}
	return pairSecret(name, p), nil
}

// errNoPair hides its cause, which may quote the key.
var errNoPair = errors.New("certificate and key are no pair")

// certificate is a certificate that the control plane issued.
func certificate(name string, p Pair) (*tlsv3.Secret, error) {
	pair, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return nil, errNoPair
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("certificate expired at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return pairSecret(name, p), nil
}

func pairSecret(name string, p Pair) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(p.Certificate), PrivateKey: inline(p.Key),
	}}}
}

func roots(name string, bundle []byte) (*tlsv3.Secret, error) {
	count := 0
	for rest := bundle; ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" || !c.IsCA {
			return nil, fmt.Errorf("block %d of the bundle is not the certificate of an authority", count)
		}
	}
	if count == 0 {
		return nil, errors.New("the bundle holds no certificate")
	}
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: inline(bundle),
	}}}, nil
}

func inline(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
