package sidecar

import (
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
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
	outboundPassthrough  = outboundPrefix + "passthrough:ipv4"
	inboundPassthrough   = inboundPrefix + "passthrough:ipv4"
	outboundPassthrough6 = outboundPrefix + "passthrough:ipv6"
	inboundPassthrough6  = inboundPrefix + "passthrough:ipv6"
)

// isPassthrough reports whether a listener or a cluster, without its mark, is about redirected
// connections.
func isPassthrough(name string) bool {
	switch name {
	case outboundPassthrough, inboundPassthrough, outboundPassthrough6, inboundPassthrough6:
		return true
	}
	return false
}

// redirectKey is everything that one side of a redirection is made from.
type redirectKey struct {
	name, address string
	port          uint32
	// source is the address that connections are forwarded from, if any.
	source string
	// closed says that connections to unknown addresses are refused. guarded are ports whose
	// connections are refused in any case, separated by commas, beside the port itself.
	closed  bool
	guarded string
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
	c.passed = nil
	var passing passKey
	for _, k := range p.redirections(c) {
		pk := passKey{redirectKey: k, mesh: p.facts.mesh}
		switch k.name {
		case outboundPassthrough:
			p.passing(c, &pk, &out)
			passing = pk
		case outboundPassthrough6:
			pk.from, pk.selections = passing.from, passing.selections
		}
		l, err := of(p.cells.redirects, p.round, pk, p.redirect)
		out.keep(&out.listeners, nil, k.name, l, err)
		cl, err := of(p.cells.originals, p.round, k.forwarding(), original)
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

// redirections lists the sides that are redirected.
func (p *Planner) redirections(c *class) []redirectKey {
	s := &c.shape
	out := []redirectKey{{name: outboundPassthrough, address: anyIPv4, port: s.RedirectOutbound, closed: !p.facts.passthrough}}
	in := redirectKey{name: inboundPassthrough, address: anyIPv4, port: s.RedirectInbound, source: inboundSource, closed: p.facts.security == strict}
	if !in.closed {
		in.guarded = guarded(c.inbounds)
	}
	if in.port != 0 {
		out = append(out, in)
	}
	if !s.IPv6 {
		return out
	}
	out = append(out, redirectKey{name: outboundPassthrough6, address: anyIPv6, port: s.RedirectOutbound, closed: !p.facts.passthrough})
	if in.port != 0 {
		in.name, in.address, in.source = inboundPassthrough6, anyIPv6, inboundSource6
		out = append(out, in)
	}
	return out
}

const anyIPv4, anyIPv6 = "0.0.0.0", "::"

// guarded lists the ports at which a workload is reached past an inbound that keeps callers out.
// A machine has more addresses than the one of the inbound, and a connection to another one has
// no listener: it would be passed on to the workload.
func guarded(of []*inbound) string {
	var ports []string
	for _, in := range of {
		if in.guarded {
			ports = append(ports, strconv.FormatUint(uint64(in.shape.Port), 10), strconv.FormatUint(uint64(in.shape.WorkloadPort), 10))
		}
	}
	slices.Sort(ports)
	return strings.Join(slices.Compact(ports), ",")
}

// forwarding is the part of a key that the cluster is made from.
func (k redirectKey) forwarding() redirectKey { return redirectKey{name: k.name, source: k.source} }

// redirect builds the listener of a side.
func (p *Planner) redirect(k passKey) (*resource.Resource, error) {
	cluster := nowhere
	if !k.closed {
		cluster = apart + k.name
	}
	direction := corev3.TrafficDirection_OUTBOUND
	if strings.HasPrefix(k.name, inboundPrefix) {
		direction = corev3.TrafficDirection_INBOUND
	}
	d := &draft.Outbound{
		Mesh: k.mesh, Service: mesh.PassThrough, Protocol: mesh.ProtocolTCP, Source: k.from.Service, Zone: k.from.Zone, TCP: k.leadTo(cluster),
		Proto: &listenerv3.Listener{
			Name: k.name, Address: socket(k.address, k.port), TrafficDirection: direction, UseOriginalDst: wrapperspb.Bool(true),
			EnableReusePort: alone(),
		},
	}
	if err := p.edit(k.selections, func(e *edits, s *chosen) error { return e.outbound(d, s) }); err != nil {
		return nil, err
	}
	other, err := packFilter(tcpFilter, d.TCP)
	if err != nil {
		return nil, err
	}
	closing := proto.CloneOf(d.TCP) // it is logged like the others
	closing.ClusterSpecifier = k.leadTo(nowhere).GetClusterSpecifier()
	end, err := packFilter(tcpFilter, closing)
	if err != nil {
		return nil, err
	}
	d.Proto.FilterChains = append([]*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{other}}}, k.ended(end)...)
	return plan.Freeze(resource.Listener, k.name, d.Proto)
}

// ended are the chains of a side that only end connections. Among them are those to the port of
// the side itself: nobody redirected these, and the proxy would pass them on to itself, over and
// over, until it has no file descriptors left, of which Envoy dies. So it would with the addresses
// of names, of which only proxies know and which are always redirected, once nothing has the name.
func (k redirectKey) ended(end *listenerv3.Filter) (chains []*listenerv3.FilterChain) {
	ports := strings.FieldsFunc(k.guarded, func(r rune) bool { return r == ',' })
	if own := strconv.FormatUint(uint64(k.port), 10); !slices.Contains(ports, own) {
		ports = append(ports, own)
	}
	for _, port := range ports {
		n, _ := strconv.ParseUint(port, 10, 16)
		chains = append(chains, &listenerv3.FilterChain{
			Name: "closed:" + port, Filters: []*listenerv3.Filter{end},
			FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(uint32(n))},
		})
	}
	if k.name == outboundPassthrough {
		chains = append(chains, &listenerv3.FilterChain{
			Name: "closed:names", Filters: []*listenerv3.Filter{end},
			FilterChainMatch: &listenerv3.FilterChainMatch{PrefixRanges: []*corev3.CidrRange{{
				AddressPrefix: mesh.Virtual.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(mesh.Virtual.Bits())), //nolint:gosec // at most 32
			}}},
		})
	}
	return chains
}

// leadTo returns what forwards connections to a cluster.
func (k redirectKey) leadTo(cluster string) *tcpv3.TcpProxy {
	return &tcpv3.TcpProxy{StatPrefix: statName(k.name), ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: cluster}}
}

// original forwards connections to their original destination.
func original(k redirectKey) (*resource.Resource, error) {
	c := &clusterv3.Cluster{
		Name: apart + k.name, AltStatName: statName(k.name), ConnectTimeout: durationpb.New(connectTimeout),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		LbPolicy:             clusterv3.Cluster_CLUSTER_PROVIDED,
		CircuitBreakers:      plan.Unlimited(),
	}
	if k.source != "" {
		c.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: &corev3.SocketAddress{
			Address: k.source, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0},
		}}
	}
	return plan.Freeze(resource.Cluster, c.GetName(), c)
}
