package assembly

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/meshgate/meshgate/controlplane/authorities"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/places"
	plan "github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/rejudge"
	xds "github.com/meshgate/meshgate/xds/server"
)

// AllKinds lists every kind that is stored.
func AllKinds() []*model.Kind {
	var kinds []*model.Kind
	kinds = append(kinds, gateway.Kinds()...)
	kinds = append(kinds, declarative.Kinds()...)
	kinds = append(kinds, identity.Kinds()...)
	kinds = append(kinds, meshca.Kinds()...)
	kinds = append(kinds, mesh.Kinds()...)
	kinds = append(kinds, all.Kinds()...)
	kinds = append(kinds, cloud.Kinds()...)
	kinds = append(kinds, lease.Kinds()...)
	return append(kinds, revoke.Kinds()...)
}

// parameters finds what a gateway said at its enrolment.
type parameters struct {
	store store.Store
	// trusted are the networks whose X-Forwarded-* headers count, as the plan
	// takes them.
	trusted string
	// forwardDots passes ambiguous dot segments on.
	forwardDots bool
	tracing     plan.Tracing
	// log is the access log; where it goes is for the gateway to say.
	log accesslog.Settings
}

// Gateway implements publish.Parameters.
func (p parameters) Gateway(ctx context.Context, node string) (out plan.Params, err error) {
	controlPlane, instance, err := publish.ParseNode(node)
	if err != nil {
		return out, err
	}
	err = p.store.View(ctx, func(r store.Reader) error {
		res, err := r.Get(gateway.Instances, controlPlane, instance)
		if err != nil {
			return err
		}
		in := res.Spec.(*gateway.Instance)
		host, text, err := net.SplitHostPort(in.ControlPlane)
		if err != nil {
			return err
		}
		oauthPort, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return err
		}
		out = plan.Params{
			Address: in.Listen, HTTPPort: uint32(in.HTTPPort), HTTPSPort: uint32(in.HTTPSPort), //nolint:gosec // checked at enrolment
			OAuth: plan.Endpoint{Host: host, Port: uint32(oauthPort)}, RootsFile: in.RootsFile,
			Trusted: p.trusted, ForwardDotSegments: p.forwardDots, Filter: in.Filter, Tracing: p.tracing, Log: p.log,
		}
		return nil
	})
	return out, err
}

// identities gives the loop what secrets contain.
type identities struct{ cp *ControlPlane }

// Server implements publish.Identities.
func (i identities) Server(ctx context.Context) (publish.Pair, error) {
	return asPair(i.cp.authority.Listener(ctx, i.cp.names()))
}

// Node implements publish.Identities.
func (i identities) Node(_ context.Context, node string) (publish.Pair, error) {
	p, err := i.cp.authority.Node(node)
	if err == nil {
		if ends, err := p.Ends(); err == nil {
			i.cp.mesh.insights.Certified(node, ends)
		}
	}
	return asPair(p, err)
}

// Workload implements publish.Identities.
func (i identities) Workload(ctx context.Context, meshName, dataplane string) (publish.Workload, error) {
	leaf, err := i.cp.mesh.workloads.Issue(ctx, meshName, dataplane)
	if err != nil {
		return publish.Workload{}, err
	}
	i.cp.mesh.insights.Issued(meshName, dataplane, leaf.Backend, leaf.NotAfter, leaf.Issued)
	i.cp.mesh.renewals.Note(meshName, dataplane, leaf.Issued, leaf.NotAfter)
	return publish.Workload{Pair: publish.Pair{Certificate: leaf.Certificate, Key: leaf.Key}, Issuer: leaf.Issuer, Sources: leaf.Sources}, nil
}

// Egress implements publish.Identities. An egress has one record of its certificates in all meshes:
// while any of them has not ended, each may be one of any mesh.
func (i identities) Egress(ctx context.Context, meshName, egress string) (publish.Workload, error) {
	leaf, err := i.cp.mesh.workloads.IssueEgress(ctx, meshName, egress)
	if err != nil {
		return publish.Workload{}, err
	}
	i.cp.mesh.insights.Issued(mesh.ZoneNodeScope(mesh.ProxyEgress), egress, leaf.Backend, leaf.NotAfter, leaf.Issued)
	i.cp.mesh.renewals.Note(meshName, mesh.ZoneNodeID(mesh.ProxyEgress, egress), leaf.Issued, leaf.NotAfter)
	return publish.Workload{Pair: publish.Pair{Certificate: leaf.Certificate, Key: leaf.Key}, Issuer: leaf.Issuer}, nil
}

// Certificate implements publish.Identities.
func (i identities) Certificate(ctx context.Context, controlPlane, id string, alternative bool) (p publish.Pair, err error) {
	err = i.cp.store.View(ctx, func(r store.Reader) error {
		src, err := i.cp.resolver.Resolve(r, controlPlane)
		if err != nil {
			return err
		}
		res, err := src.Get(gateway.Certificates, id) // the one that gateways hold
		if err != nil {
			return err
		}
		p.Certificate, p.Key, err = res.Spec.(*gateway.Certificate).Pair(alternative)
		return err
	})
	return p, err
}

// External implements publish.Identities. The key of an authority is handed out to nobody, however
// it came there.
func (i identities) External(ctx context.Context, meshName, service string) (p *mesh.Presented, err error) {
	err = i.cp.store.View(ctx, func(r store.Reader) error {
		res, err := r.Get(mesh.ExternalServices, meshName, service)
		if err != nil {
			return err
		}
		if p, err = res.Spec.(*mesh.ExternalService).Presented(r, meshName, service); err != nil || p == nil {
			return err
		}
		of, err := authorities.With(r, p.Leaf)
		if err == nil && of != "" {
			err = fault.New(fault.Forbidden, "the key for ExternalService %s of mesh %s is that of an authority of mesh %s", service, meshName, of)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Listener implements publish.Identities. The key of an authority is handed out to nobody.
func (i identities) Listener(ctx context.Context, meshName, secret string) (p *mesh.ClientPair, err error) {
	err = i.cp.store.View(ctx, func(r store.Reader) error {
		if p, err = mesh.ServerPair(r, meshName, secret); err != nil {
			return err
		}
		of, err := authorities.With(r, p.Leaf)
		if err == nil && of != "" {
			err = fault.New(fault.Forbidden, "the key in secret %s of mesh %s is that of an authority of mesh %s", secret, meshName, of)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Roots implements publish.Identities.
func (i identities) Roots(context.Context) ([]byte, error) { return i.cp.authority.PEM(), nil }

func asPair(p *identity.KeyPair, err error) (publish.Pair, error) {
	if err != nil {
		return publish.Pair{}, err
	}
	return publish.Pair{Certificate: p.Certificate, Key: p.Key}, nil
}

// xdsNodes prepares a node's set when its stream opens.
type xdsNodes struct{ loop *publish.Loop }

// Connect implements the ADS server's Nodes.
func (n xdsNodes) Connect(ctx context.Context, id string, bare bool) (func(), error) {
	release, err := n.loop.Connect(ctx, id, bare)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		err = errors.Join(xds.ErrUnknownNode, err)
	}
	return release, err
}

// adsAuthenticator checks the tokens of ADS streams and of links to the
// administration interfaces of proxies.
type adsAuthenticator struct{ cp *ControlPlane }

// Authenticate implements the ADS server's Authenticator.
func (a adsAuthenticator) Authenticate(ctx context.Context, nodeID, token string) (until time.Time, err error) {
	if until, err = a.cp.authenticate(ctx, nodeID, token); err == nil {
		a.cp.uses.Streamed(nodeID, identity.KeyID(token), until)
	}
	return until, refusal(err)
}

// Known implements the ADS server's Authenticator: a token of a node of either kind.
func (a adsAuthenticator) Known(ctx context.Context, token string) error {
	if identity.ClaimsZone(token) {
		return refusal(a.cp.people.CheckZoneToken(ctx, token))
	}
	if !identity.ClaimsGateway(token) { // which all tokens of gateways do
		return refusal(a.cp.mesh.tokens.CheckToken(ctx, token))
	}
	_, err := a.cp.tokens.Check(ctx, strings.TrimPrefix(token, "Bearer "))
	return refusal(err)
}

// owner says whose a token is that was found good.
func owner(token string) (o places.Owner) {
	o.Token, o.Mesh = identity.Holder(token)
	return o
}

// refusal tells the ADS server what it may say to a proxy.
func refusal(err error) error {
	switch fault.CodeOf(err) {
	case fault.Forbidden:
		return errors.Join(xds.ErrForbidden, err)
	case fault.NotFound:
		return errors.Join(xds.ErrUnknownNode, err)
	case fault.Denied:
		if e, ok := errors.AsType[*fault.Error](err); ok {
			return errors.Join(&xds.Unauthenticated{Reason: e.Detail}, err)
		}
		return errors.Join(xds.ErrUnauthenticated, err)
	}
	return err
}

// authenticate checks the token of a node of either kind; until is its end. It says of a
// token that counts no more whether its node has shown a newer one.
func (cp *ControlPlane) authenticate(ctx context.Context, nodeID, token string) (until time.Time, err error) {
	until, err = cp.judge(ctx, nodeID, token)
	if fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) {
		if cp.uses.Renewed(nodeID, identity.KeyID(token)) {
			err = rejudge.Renewed(err)
		}
	}
	return until, err
}

func (cp *ControlPlane) judge(ctx context.Context, nodeID, token string) (until time.Time, err error) {
	if _, _, ok := mesh.ParseZoneNode(nodeID); ok {
		return cp.people.AuthenticateZoneProxy(ctx, cp.cfg.Zone.Own(), nodeID, token)
	}
	if !strings.HasPrefix(nodeID, "cp/") {
		return cp.mesh.tokens.Authenticate(ctx, nodeID, token)
	}
	c, err := cp.tokens.Check(ctx, strings.TrimPrefix(token, "Bearer "))
	switch {
	case err != nil:
		return until, err
	case c.NodeID() != nodeID:
		return until, fault.New(fault.Forbidden, "the node token is for another node than %s", nodeID)
	}
	return c.ExpiresAt.Time, nil
}

// linkAuthenticator checks the tokens of freshness links.
type linkAuthenticator struct{ cp *ControlPlane }

// controlPlaneOf returns the control plane whose tokens a node checks. For proxies of meshes
// that is the default one.
func controlPlaneOf(node string) string {
	name, _, err := publish.ParseNode(node)
	if err != nil {
		return model.DefaultControlPlane
	}
	return name
}

// Authenticate implements revoke.Authenticator.
func (a linkAuthenticator) Authenticate(ctx context.Context, node, token string) (revoke.Node, error) {
	if node == "" {
		c, err := a.cp.tokens.Check(ctx, strings.TrimPrefix(token, "Bearer "))
		if err != nil {
			return revoke.Node{}, err
		}
		node = c.NodeID()
	}
	if _, _, zonal := mesh.ParseZoneNode(node); zonal {
		return revoke.Node{}, fault.New(fault.Forbidden, "proxies of zones have no filters")
	}
	until, err := a.cp.authenticate(ctx, node, token)
	if err != nil {
		return revoke.Node{}, err
	}
	return revoke.Node{ID: node, ControlPlane: controlPlaneOf(node), Until: until, Owner: owner(token)}, nil
}

// handshaken are gRPC credentials for connections on which TLS is done.
type handshaken struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (handshaken) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	info := credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	if t, ok := c.(*tls.Conn); ok {
		info.State = t.ConnectionState()
	}
	return c, info, nil
}

// Info implements credentials.TransportCredentials.
func (handshaken) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (h handshaken) Clone() credentials.TransportCredentials { return h }
