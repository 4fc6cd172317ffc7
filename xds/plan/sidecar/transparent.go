package sidecar

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// These are the names of the listeners that take redirected connections. Their clusters have
// the same names with a mark.
const (
	outboundPassthrough = outboundPrefix + "passthrough:ipv4"
	inboundPassthrough  = inboundPrefix + "passthrough:ipv4"
)

// redirectKey is everything that one side of a redirection is made from.
type redirectKey struct {
	name string
	port uint32
	// source is the address that connections are forwarded from, if any.
	source string
	// closed says that connections to unknown addresses are refused.
	closed bool
}

// passKey is everything that the listener of a side is made from.
type passKey struct {
	redirectKey
	mesh string
	// from is whose connections it takes, if a policy looks at that.
	from source
	// selections are for connections that leave the mesh.
	selections *policy.Choices
}

// redirected makes the listeners for connections that the operating system redirects. They
// hand a connection to the listener of its original address. Connections without such a
// listener are forwarded, or closed where that is not permitted.
func (p *Planner) redirected(c *class) part {
	var out part
	if !c.shape.Transparent {
		return out
	}
	sides := []redirectKey{{name: outboundPassthrough, port: c.shape.RedirectOutbound, closed: !p.facts.passthrough}}
	if c.shape.RedirectInbound != 0 {
		sides = append(sides, redirectKey{
			name: inboundPassthrough, port: c.shape.RedirectInbound, source: inboundSource, closed: p.facts.security == strict,
		})
	}
	c.passed = nil
	for _, k := range sides {
		pk := passKey{redirectKey: k, mesh: p.facts.mesh}
		if k.name == outboundPassthrough {
			p.passing(c, &pk, &out)
		}
		l, err := of(p.cells.redirects, p.round, pk, p.redirect)
		out.keep(&out.listeners, nil, k.name, l, err)
		cl, err := of(p.cells.originals, p.round, k, original)
		out.keep(&out.clusters, nil, k.name, cl, err)
	}
	return out
}

// passing chooses the policies on the connections of a class that leave the mesh.
func (p *Planner) passing(c *class, k *passKey, into *part) {
	chosen := p.blank(atPiece)
	p.forService(c.sources, mesh.PassThrough, chosen, into)
	c.passed = p.learnAll(nil, chosen)
	p.contributed(chosen, into)
	for i, pol := range p.policies {
		if pol.Sourced && chosen[i] != nil {
			k.from = sourceOf(c.sources)
		}
	}
	k.selections = p.only(chosen, func(pol *policy.Policy) bool { return pol.Outbound != nil })
}

// redirect builds the listener of a side.
func (p *Planner) redirect(k passKey) (*resource.Resource, error) {
	t := &tcpv3.TcpProxy{StatPrefix: statName(k.name), ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: apart + k.name}}
	if k.closed {
		t.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: nowhere}
	}
	direction := corev3.TrafficDirection_OUTBOUND
	if k.name == inboundPassthrough {
		direction = corev3.TrafficDirection_INBOUND
	}
	d := &draft.Outbound{
		Mesh: k.mesh, Service: mesh.PassThrough, Protocol: mesh.ProtocolTCP, Source: k.from.Service, Zone: k.from.Zone, TCP: t,
		Proto: &listenerv3.Listener{
			Name: k.name, Address: socket("0.0.0.0", k.port), TrafficDirection: direction, UseOriginalDst: wrapperspb.Bool(true),
			EnableReusePort: alone(),
		},
	}
	if err := p.edit(k.selections, func(e *edits, s *chosen) error { return e.outbound(d, s) }); err != nil {
		return nil, err
	}
	filter, err := packFilter(tcpFilter, d.TCP)
	if err != nil {
		return nil, err
	}
	d.Proto.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}}
	return plan.Freeze(resource.Listener, k.name, d.Proto)
}

// original forwards connections to their original destination.
func original(k redirectKey) (*resource.Resource, error) {
	c := &clusterv3.Cluster{
		Name: apart + k.name, AltStatName: statName(k.name), ConnectTimeout: durationpb.New(connectTimeout),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		LbPolicy:             clusterv3.Cluster_CLUSTER_PROVIDED,
	}
	if k.source != "" {
		c.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: &corev3.SocketAddress{
			Address: k.source, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0},
		}}
	}
	return plan.Freeze(resource.Cluster, c.GetName(), c)
}
