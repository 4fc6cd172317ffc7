package passing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/resource"
)

const (
	connectTimeout = 5 * time.Second
	// idle is longer than that of outbounds, which so end their connections themselves.
	idle = 2 * time.Hour
	// attempts is how many instances are tried: one that has just left refuses connections before
	// the proxy hears of it.
	attempts = 3
	// maxConnections is how many connections may lead to the instances of one set of tags.
	maxConnections = 8192
)

// service is what a service contributes to every proxy.
type service struct {
	clusters, endpoints []*resource.Resource
	chains              []*listenerv3.FilterChain
	failures            []plan.Failure
}

// build makes what a service of a mesh contributes. It contributes nothing without instances.
func (p *Planner) build(part *meshPart, s *view.MeshService) (*service, error) {
	meshName := part.state.Name()
	out := &service{}
	lacks := func(err error) {
		out.failures = append(out.failures, plan.Failure{Cell: cell(meshName, s.Name), Err: err})
	}
	all, astray := p.role.Leads(s, p.zone, p.proxies)
	if astray > 0 {
		lacks(fmt.Errorf("callers cannot reach %d of its instances: their address is a name, or that of a proxy of the zone", astray))
	}
	chosen, left := Subsets(all, part.sets)
	if left > 0 {
		lacks(fmt.Errorf("at least %d sets of tags are too many: callers cannot choose instances by them", left))
	}
	for _, tags := range chosen {
		if err := out.add(meshName, tags, all); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// add makes the cluster and the chain of the endpoints that some tags select.
func (s *service) add(meshName string, tags mesh.Tags, all []view.Endpoint) error {
	name := meshName + ":" + sidecar.ClusterName(tags)
	c := &clusterv3.Cluster{
		Name: name, AltStatName: stat(name), ConnectTimeout: durationpb.New(connectTimeout),
		// Callers are in other zones, and may read as slowly as they like.
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(plan.ConnectionBuffer),

		IgnoreHealthOnHostRemoval: true,
		CommonLbConfig:            &clusterv3.Cluster_CommonLbConfig{UpdateMergeWindow: durationpb.New(0)},
		// Wherever connections lead, also back to here, they end before Envoy has no descriptors left.
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: wrapperspb.UInt32(maxConnections), MaxPendingRequests: wrapperspb.UInt32(maxConnections),
		}}},
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: plan.ADS()},
	}
	e, err := plan.Freeze(resource.Endpoint, name, assignment(name, tags, all))
	if err != nil {
		return err
	}
	s.endpoints = append(s.endpoints, e)
	r, err := plan.Freeze(resource.Cluster, name, c)
	if err != nil {
		return err
	}
	s.clusters = append(s.clusters, r)
	l, err := chain(sidecar.SNI(meshName, tags), name)
	s.chains = append(s.chains, l)
	return err
}

// assignment lists the endpoints that some tags select, each address once.
func assignment(name string, tags mesh.Tags, all []view.Endpoint) *endpointv3.ClusterLoadAssignment {
	group := &endpointv3.LocalityLbEndpoints{}
	var last *view.Endpoint
	for _, e := range sidecar.Shares(tags, all, true) {
		if last != nil && last.Address == e.Address && last.Port == e.Port {
			continue
		}
		last = e.Endpoint
		to := &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
			Endpoint: &endpointv3.Endpoint{Address: socket(e.Address, e.Port)},
		}}
		if e.Weight > 1 {
			to.LoadBalancingWeight = wrapperspb.UInt32(e.Weight)
		}
		group.LbEndpoints = append(group.LbEndpoints, to)
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{group}}
}

func cell(meshName, service string) string { return "service " + meshName + ":" + service }

// chain passes connections with a server name on to a cluster, if they are by mutual TLS of a mesh:
// a mesh that is PERMISSIVE has workloads with a TLS of their own, which judges nobody.
func chain(sni, cluster string) (*listenerv3.FilterChain, error) {
	packed, err := plan.Pack(&tcpv3.TcpProxy{
		StatPrefix: stat(cluster), IdleTimeout: durationpb.New(idle), MaxConnectAttempts: wrapperspb.UInt32(attempts),
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: cluster},
	})
	if err != nil {
		return nil, err
	}
	return &listenerv3.FilterChain{
		Name:             sni,
		FilterChainMatch: &listenerv3.FilterChainMatch{TransportProtocol: "tls", ServerNames: []string{sni}, ApplicationProtocols: []string{mesh.ALPN}},
		Filters: []*listenerv3.Filter{{
			Name: "envoy.filters.network.tcp_proxy", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed},
		}},
	}, nil
}

func socket(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// stat makes a name fit for statistics, in which dots are separators.
func stat(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || slices.Contains([]rune("-_"), r) {
			return r
		}
		return '_'
	}, name)
}
