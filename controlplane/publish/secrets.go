package publish

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/pemtext"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/resource"
)

// Pair is a certificate chain with its key, both in PEM.
type Pair struct{ Certificate, Key []byte }

// Workload is the certificate of a proxy of a mesh with the properties that it was signed
// for. All come from one state of the store.
type Workload struct {
	Pair
	// Issuer is the authority that signed it, as named in [mesh.Trust].
	Issuer string
	// Sources are the tag sets of the dataplane.
	Sources []mesh.Tags
}

// Identities issues the contents of secrets.
type Identities interface {
	// Server returns the certificate of the gateway's HTTPS listener.
	Server(ctx context.Context) (Pair, error)
	// Node returns the client certificate of a gateway.
	Node(ctx context.Context, node string) (Pair, error)
	// Workload returns the certificate of a proxy of a mesh.
	Workload(ctx context.Context, mesh, dataplane string) (Workload, error)
	// Egress returns the certificate of an egress of the zone as one of a mesh.
	Egress(ctx context.Context, mesh, egress string) (Workload, error)
	// Certificate returns a stored certificate of a control plane, or its alternative pair.
	Certificate(ctx context.Context, controlPlane, id string, alternative bool) (Pair, error)
	// External returns what proxies of a mesh present to the ExternalService of a name, nil if
	// that is nothing.
	External(ctx context.Context, meshName, service string) (*mesh.Presented, error)
	// Listener returns what gateways of a mesh present that name one of its secrets.
	Listener(ctx context.Context, meshName, secret string) (*mesh.ClientPair, error)
	// Roots returns the PEM bundle that validates the control plane.
	Roots(ctx context.Context) ([]byte, error)
}

// Secret makes a secret for a connected node when the node subscribes to it. It fails with
// Forbidden if the node's set does not name the secret. An identity of a mesh is made for
// the requested generation; if that is impossible, Secret fails with Unavailable. Secret
// checks that the result parses, because Envoy writes a secret that it refuses into its
// error text and its log in clear text. Errors never contain key material.
func (l *Loop) Secret(ctx context.Context, id, name, generation string) (*resource.Resource, error) {
	l.mu.Lock()
	n := l.nodes[id]
	allowed := n != nil && n.set.AllowsSecret(name)
	l.mu.Unlock()
	switch {
	case n == nil:
		return nil, errUnknown(id)
	case !allowed:
		return nil, fault.New(fault.Forbidden, "node %s may not have secret %s", id, name)
	}
	s, err := l.secret(ctx, id, name, generation)
	if err != nil {
		return nil, fmt.Errorf("secret %s of node %s: %w", name, id, err)
	}
	return plan.Freeze(resource.Secret, name, s)
}

func (l *Loop) secret(ctx context.Context, id, name, generation string) (*tlsv3.Secret, error) {
	switch name {
	case edge.SecretServer:
		p, err := l.Identities.Server(ctx)
		if err != nil {
			return nil, err
		}
		return certificate(name, p)
	case edge.SecretIdentity:
		p, err := l.Identities.Node(ctx, id)
		if err != nil {
			return nil, err
		}
		return certificate(name, p)
	case edge.SecretCA:
		bundle, err := l.Identities.Roots(ctx)
		if err != nil {
			return nil, err
		}
		return roots(name, bundle)
	}
	if certificate, alternative, ok := edge.ParseCertificate(name); ok {
		return l.stored(ctx, id, name, certificate, alternative)
	}
	if proxyType, egress, is := mesh.ParseZoneNode(id); is && proxyType == mesh.ProxyEgress {
		return l.ofEgress(ctx, id, egress, name, generation)
	}
	meshName, dataplane, err := ParseProxy(id)
	if service, ok := mesh.ParseExternalClient(name); ok && err == nil {
		return l.external(ctx, meshName, service, name)
	}
	if of, ok := mesh.ParseServer(name); ok && err == nil {
		return l.listener(ctx, meshName, of, name, generation)
	}
	if err != nil || name != mesh.SecretIdentity(meshName) {
		return nil, fault.New(fault.NotFound, "no such secret")
	}
	p, err := l.workload(ctx, meshName, dataplane, generation)
	if err != nil {
		return nil, err
	}
	return certificate(name, p)
}

// maxIssues bounds how often an identity is issued again because the dataplane or its
// issuer changed in the meantime.
const maxIssues = 4

// workload returns the certificate of a proxy for the generation that its set wants. The
// issuer reads the store, which may be newer than the set: by a round, by a plan, or by a
// view that fails. Tags that change and change back in that time leave no trace in a set,
// so the proxy would keep a certificate that was signed for the intermediate tags. Such a
// certificate must not be handed out. It is issued again once the mesh has taken what is
// stored.
func (l *Loop) workload(ctx context.Context, meshName, dataplane, generation string) (Pair, error) {
	id := mesh.NodeID(meshName, dataplane)
	for range maxIssues {
		w, err := l.Identities.Workload(ctx, meshName, dataplane)
		if err != nil {
			return Pair{}, err
		}
		if sidecar.Generation(w.Issuer, w.Sources) == generation {
			return w.Pair, nil
		}
		l.mu.Lock()
		p, n := l.opened(meshName), l.nodes[id]
		turned := n != nil && !n.wants(mesh.SecretIdentity(meshName), generation)
		l.mu.Unlock()
		if p == nil || n == nil {
			return Pair{}, errUnknown(id)
		}
		if turned {
			break // the request comes from a set that is no longer the newest
		}
		if err := l.await(ctx, p, l.Latest()); err != nil {
			return Pair{}, err
		}
	}
	return Pair{}, fault.New(fault.Unavailable, "dataplane %s of mesh %s changes faster than its certificate is made", dataplane, meshName)
}

// wants reports whether the newest set of a node names a secret in a generation. The caller
// holds the lock of the loop.
func (n *node) wants(secret, generation string) bool {
	now, ok := n.set.Generation(secret)
	return ok && now == generation
}

// stored returns a certificate that users have uploaded. An expired certificate is returned
// as well: clients report the expiry to their users, whereas without a certificate no
// connection works at all.
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

// external returns what a proxy presents to a service outside the mesh. The name of the secret says
// which content the set of the proxy means. If there is newer content, its set is about to name
// that.
func (l *Loop) external(ctx context.Context, meshName, service, name string) (*tlsv3.Secret, error) {
	p, err := l.Identities.External(ctx, meshName, service)
	if err != nil {
		return nil, err
	}
	if p == nil || p.Name != name {
		return nil, fault.New(fault.Unavailable, "ExternalService %s of mesh %s has another certificate by now", service, meshName)
	}
	return pairSecret(name, Pair{Certificate: p.Chain, Key: p.Key}), nil
}

// listener returns what the listeners of a gateway present. Its set says in which generation; if
// the secret has other content by now, a set with that is about to come.
func (l *Loop) listener(ctx context.Context, meshName, of, name, generation string) (*tlsv3.Secret, error) {
	p, err := l.Identities.Listener(ctx, meshName, of)
	if err != nil {
		return nil, err
	}
	if p.Generation() != generation {
		return nil, fault.New(fault.Unavailable, "secret %s of mesh %s has another certificate by now", of, meshName)
	}
	return pairSecret(name, Pair{Certificate: p.Chain, Key: p.Key}), nil
}

// errNoPair hides its cause, which may quote the key.
var errNoPair = errors.New("certificate and key are no pair")

// certificate makes the secret of a certificate that the control plane issued. It refuses
// an expired certificate.
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
	for block := range pemtext.Blocks(bundle) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != pemtext.TypeCertificate || !c.IsCA {
			return nil, fmt.Errorf("block %d of the bundle is not the certificate of an authority", count)
		}
		count++
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
