package sidecar

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/plan"
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
	for _, k := range sides {
		l, err := of(p.cells.redirects, p.round, k, redirect)
		out.keep(&out.listeners, nil, k.name, l, err)
		cl, err := of(p.cells.originals, p.round, k, original)
		out.keep(&out.clusters, nil, k.name, cl, err)
	}
	return out
}

func redirect(k redirectKey) (*resource.Resource, error) {
	t := &tcpv3.TcpProxy{StatPrefix: statName(k.name), ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: apart + k.name}}
	if k.closed {
		t.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: nowhere}
	}
	filter, err := packFilter(tcpFilter, t)
	if err != nil {
		return nil, err
	}
	direction := corev3.TrafficDirection_OUTBOUND
	if k.name == inboundPassthrough {
		direction = corev3.TrafficDirection_INBOUND
	}
	return plan.Freeze(resource.Listener, k.name, &listenerv3.Listener{
		Name: k.name, Address: socket("0.0.0.0", k.port), TrafficDirection: direction, UseOriginalDst: wrapperspb.Bool(true),
		EnableReusePort: alone(),
		FilterChains:    []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}},
	})
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
