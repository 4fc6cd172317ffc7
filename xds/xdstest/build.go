package xdstest

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Freeze marshals a message into a resource. It panics on an error, which is a mistake in the
// test.
func Freeze(t resource.TypeURL, name string, m proto.Message) *resource.Resource {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("marshal %s: %v", name, err))
	}
	return resource.New(t, name, b)
}

func pack(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(fmt.Sprintf("pack: %v", err))
	}
	return a
}

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   durationpb.New(15 * time.Second),
	}
}

// Cluster returns an EDS cluster. Another timeout gives it other bytes.
func Cluster(name string, timeout time.Duration) *resource.Resource {
	return Freeze(resource.Cluster, name, &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(timeout),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads()},
	})
}

// Endpoints returns the assignment of a cluster to ports of 127.0.0.1.
func Endpoints(cluster string, ports ...int) *resource.Resource {
	m := &endpointv3.ClusterLoadAssignment{ClusterName: cluster}
	for _, p := range ports {
		m.Endpoints = append(m.Endpoints, &endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(p)}},
		}}})
	}
	return Freeze(resource.Endpoint, cluster, m)
}

func address(port int) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       "127.0.0.1",
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// Listener returns an HTTP listener on 127.0.0.1 that takes its routes by RDS.
func Listener(name string, port int, routes string) *resource.Resource {
	return Freeze(resource.Listener, name, &listenerv3.Listener{
		Name: name, Address: address(port),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(&hcmv3.HttpConnectionManager{
				StatPrefix: "http",
				RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
					ConfigSource: ads(), RouteConfigName: routes,
				}},
				HttpFilters: []*hcmv3.HttpFilter{{
					Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{})},
				}},
			})},
		}}}},
	})
}

// Routes returns a route table that sends everything to one cluster, or answers with status if
// that is not 0.
func Routes(name, cluster string, status int) *resource.Resource {
	r := &routev3.Route{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}}
	r.Action = &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}}}
	if status != 0 {
		r.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: uint32(status)}}
	}
	return Freeze(resource.Route, name, &routev3.RouteConfiguration{
		Name:         name,
		VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{r}}},
	})
}
