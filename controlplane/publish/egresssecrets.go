package publish

import (
	"context"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
)

// ofEgress makes a secret for an egress of the zone, which has some of several meshes: its identity
// in each, and what it presents to services outside. Its set names no secret of any other mesh.
func (l *Loop) ofEgress(ctx context.Context, id, name, secret, generation string) (*tlsv3.Secret, error) {
	if service, ok := mesh.ParseExternalClient(secret); ok {
		owner := l.ownerOf(secret)
		if owner == "" {
			return nil, fault.New(fault.Unavailable, "what the secret is for is gone by now")
		}
		return l.external(ctx, owner, service, secret)
	}
	meshName, ok := mesh.ParseIdentity(secret)
	if !ok {
		return nil, fault.New(fault.NotFound, "no such secret")
	}
	for range maxIssues {
		w, err := l.Identities.Egress(ctx, meshName, name)
		if err != nil {
			return nil, err
		}
		if sidecar.Generation(w.Issuer, nil) == generation {
			return certificate(secret, w.Pair)
		}
		l.mu.Lock()
		n := l.nodes[id]
		turned := n != nil && !n.wants(secret, generation)
		l.mu.Unlock()
		p := l.openedZone()
		if n == nil || p == nil {
			return nil, errUnknown(id)
		}
		if turned {
			break // the request comes from a set that is no longer the newest
		}
		if err := l.UpToDate(ctx, p.id()); err != nil {
			return nil, err
		}
	}
	return nil, fault.New(fault.Unavailable, "the authority of mesh %s changes faster than the certificate of egress %s is made", meshName, name)
}

// ownerOf returns the mesh of which a secret is that egresses present to a service outside, empty if
// none is.
func (l *Loop) ownerOf(secret string) string {
	p := l.openedZone()
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	planner, ok := p.planners[mesh.ProxyEgress].(egresses)
	if !ok || p.retry.err != nil {
		return ""
	}
	return planner.Owner(secret)
}
