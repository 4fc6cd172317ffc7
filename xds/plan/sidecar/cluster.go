package sidecar

import (
	"fmt"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// These are the timeouts where no policy sets any. Those of inbounds are twice those
// of outbounds, so that the client's policy decides.
const (
	connectTimeout      = 5 * time.Second
	localConnectTimeout = 10 * time.Second
	inboundIdle         = 2 * time.Hour
	inboundStreamIdle   = time.Hour
)

// httpOptions is the extension name of the HTTP options of clusters.
const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// clusterKey is everything that the cluster of a destination is made from.
type clusterKey struct {
	mesh, name, tags, protocol string
	// kind is the index of the destination's kind in the planner's list.
	kind      int
	transport Transport
	// inline describes the endpoints of a cluster that lists them itself; otherwise it is
	// zero.
	inline assignmentKey
	// leaving says that it is a cluster of egresses, which all callers share.
	leaving bool
	// strangers says that clients whom nobody knows are behind it, as at a gateway.
	strangers  bool
	selections *policy.Choices
}

// cluster builds the cluster of a destination. Its assignment has the same name.
func (p *Planner) cluster(k clusterKey) (*resource.Resource, error) {
	tags := tagsOf(k.tags)
	d := &draft.Cluster{
		Service: tags.Service(), Protocol: k.protocol,
		Proto: &clusterv3.Cluster{
			Name: k.name, AltStatName: clusterStat(k.name),
			ConnectTimeout: durationpb.New(connectTimeout),
			// A removed endpoint gets no new requests even if checks still report it as
			// healthy.
			IgnoreHealthOnHostRemoval: true,
			CommonLbConfig:            &clusterv3.Cluster_CommonLbConfig{UpdateMergeWindow: durationpb.New(0)},
		},
		HTTP: http2(),
	}
	if k.protocol == overTCP {
		d.Protocol, d.HTTP = mesh.ProtocolHTTP, http1()
	}
	in := ClusterInput{Mesh: k.mesh, Tags: tags, Transport: k.transport}
	if k.inline.destination != nil {
		var err error
		if in.Members, err = members(k.inline); err != nil {
			return nil, err
		}
		in.Destination = k.inline.destination
	}
	if err := p.kinds[k.kind].Cluster(d, in); err != nil {
		return nil, err
	}
	if k.leaving {
		d.Proto.CircuitBreakers = leavingThresholds()
	}
	if k.leaving || k.strangers {
		// Who reads slowly must not have the proxy hold a megabyte of answers, Envoy's default.
		d.Proto.PerConnectionBufferLimitBytes = wrapperspb.UInt32(plan.ConnectionBuffer)
	}
	if h2 := d.HTTP.GetExplicitHttpConfig().GetHttp2ProtocolOptions(); k.strangers && h2 != nil {
		// The limit above is none for a stream of HTTP/2, of which the window says how much is held: 16 MiB
		// are Envoy's default. The window of the connection stays large, because all clients share the
		// connection, and those who do not read must not stop the others.
		h2.InitialStreamWindowSize = wrapperspb.UInt32(plan.StreamWindow)
	}
	if err := p.edit(k.selections, func(e *edits, s *chosen) error { return e.cluster(d, s) }); err != nil {
		return nil, err
	}
	return freezeCluster(d)
}

func freezeCluster(d *draft.Cluster) (*resource.Resource, error) {
	options, err := plan.Pack(d.HTTP)
	if err != nil {
		return nil, err
	}
	d.Proto.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptions: options}
	return plan.Freeze(resource.Cluster, d.Proto.GetName(), d.Proto)
}

// http2 returns the options of the protocol between proxies, whatever the workloads use. They
// permit WebSockets in HTTP/2 (RFC 8441).
func http2() *upstreamsv3.HttpProtocolOptions {
	return &upstreamsv3.HttpProtocolOptions{UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{AllowConnect: true}},
		},
	}}
}

func http1() *upstreamsv3.HttpProtocolOptions {
	return &upstreamsv3.HttpProtocolOptions{UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}},
		},
	}}
}

// localKey is everything that the cluster of a workload is made from.
type localKey struct {
	name, address, protocol string
	port                    uint32
	// transparent proxies call their workload from an address that the operating system does
	// not redirect.
	transparent bool
}

// These are the addresses from which transparent proxies call their workloads.
const (
	inboundSource  = "127.0.0.6"
	inboundSource6 = "::1"
)

// workloadSource is the address from which a transparent proxy calls a workload at an address.
func workloadSource(address string) (netip.Addr, error) {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return a, err
	}
	if a.Is6() {
		return netip.MustParseAddr(inboundSource6), nil
	}
	return netip.MustParseAddr(inboundSource), nil
}

func local(k localKey) (*resource.Resource, error) {
	if _, err := netip.ParseAddr(k.address); err != nil {
		return nil, fmt.Errorf("the workload is at %q, which is no IP address", k.address)
	}
	name := k.name
	c := &clusterv3.Cluster{
		Name: name, AltStatName: clusterStat(name),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(localConnectTimeout),
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{lbEndpoint(k.address, k.port)}}}},
		CircuitBreakers:      plan.Unlimited(),
	}
	if k.transparent {
		source, err := workloadSource(k.address)
		if err != nil {
			return nil, err
		}
		c.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: &corev3.SocketAddress{
			Address: source.String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0},
		}}
	}
	var options *upstreamsv3.HttpProtocolOptions
	switch {
	case k.protocol == mesh.ProtocolHTTP:
		options = http1()
	case mesh.IsHTTP(k.protocol):
		options = http2()
	default:
		return plan.Freeze(resource.Cluster, name, c)
	}
	options.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(inboundIdle)}
	return freezeCluster(&draft.Cluster{Proto: c, HTTP: options})
}

func lbEndpoint(address string, port uint32) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket(address, port)}}}
}

func socket(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
