package machine_test

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/bootstrap"
	"github.com/meshgate/meshgate/xds/machine"
)

// assigned returns an assignment with one locality per list of endpoints.
func assigned(localities ...[]*corev3.Address) *endpointv3.ClusterLoadAssignment {
	a := &endpointv3.ClusterLoadAssignment{ClusterName: "backend"}
	for _, addresses := range localities {
		l := &endpointv3.LocalityLbEndpoints{}
		for _, to := range addresses {
			l.LbEndpoints = append(l.LbEndpoints, &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: to}}})
		}
		a.Endpoints = append(a.Endpoints, l)
	}
	return a
}

// inline returns a cluster that contains its assignment.
func inline(a *endpointv3.ClusterLoadAssignment) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: "backend", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}, LoadAssignment: a}
}

func endpoints(t *testing.T, b machine.Bounds, m proto.Message) (own []byte, left []error, err error) {
	t.Helper()
	return b.Endpoints("type.googleapis.com/"+string(m.ProtoReflect().Descriptor().FullName()), bytesOf(t, m))
}

// TestOneBadEndpointTakesNoOthersAway: an endpoint with a forbidden address is omitted, and
// callers get all others. The same holds for the targets of a gateway, which a cluster
// contains.
func TestOneBadEndpointTakesNoOthersAway(t *testing.T) {
	bad := []*corev3.Address{at("169.254.169.254", 80), at("127.0.0.1", statusPort), at("0x7f000001", 80)}
	for name, c := range map[string]struct {
		sent, want *endpointv3.ClusterLoadAssignment
	}{
		"some": {
			assigned([]*corev3.Address{at("10.0.0.8", 80), bad[0]}, []*corev3.Address{bad[1], at("db.example", 80), bad[2]}),
			assigned([]*corev3.Address{at("10.0.0.8", 80)}, []*corev3.Address{at("db.example", 80)}),
		},
		"all": {assigned(bad), assigned(nil)},
	} {
		for kind, m := range map[string][2]proto.Message{
			"an assignment": {c.sent, c.want}, "a cluster": {inline(c.sent), inline(c.want)},
		} {
			own, left, err := endpoints(t, here, m[0])
			if err != nil || len(left) != len(bad) {
				t.Errorf("%s of %s: %v, left out %v", name, kind, err, left)
				continue
			}
			got := m[1].ProtoReflect().New().Interface()
			if err := proto.Unmarshal(own, got); err != nil || !proto.Equal(got, m[1]) {
				t.Errorf("%s of %s: %v\n%v\nwant\n%v", name, kind, err, got, m[1])
			}
		}
	}
}

// TestOnlyEndpointsAreLeftOut: other faults of a resource are not cured by omitting an
// endpoint. An endpoint that names something of the machine is not omitted either; the
// resource is refused.
func TestOnlyEndpointsAreLeftOut(t *testing.T) {
	pipe := &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/docker.sock"}}}
	a := assigned([]*corev3.Address{at("169.254.169.254", 80), at("10.0.0.8", 80)})
	bound := inline(a)
	bound.HealthChecks = []*corev3.HealthCheck{{EventLogPath: "/etc/cron.d/x"}}
	workload := inline(assigned([]*corev3.Address{at("169.254.169.254", 80), at("8.8.8.8", 80)}))
	workload.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	for name, c := range map[string]struct {
		sent proto.Message
		left int
		want string
	}{
		"a file":           {bound, 1, "a file"},
		"a socket":         {inline(assigned([]*corev3.Address{pipe, at("10.0.0.8", 80)})), 0, "a socket"},
		"another workload": {workload, 0, elsewhere},
		"nothing is wrong": {inline(assigned([]*corev3.Address{at("10.0.0.8", 80)})), 0, ""},
		"no assignment":    {&clusterv3.Cluster{Name: "backend"}, 0, ""},
	} {
		_, left, err := endpoints(t, here, c.sent)
		if len(left) != c.left || (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, left out %v", name, err, left)
		}
	}
	types := []string{"type.googleapis.com/envoy.config.listener.v3.Listener", "type.googleapis.com/none"}
	if i := slices.IndexFunc(types, func(u string) bool { _, _, err := here.Endpoints(u, nil); return err == nil }); i >= 0 {
		t.Errorf("%s has endpoints", types[i])
	}
}

// TestUnverifiedServersHaveNoEndpoints: a machine without authorities gets the cluster, which
// listeners may need, but nothing is sent there. With authorities, the cluster has its own.
func TestUnverifiedServersHaveNoEndpoints(t *testing.T) {
	verified := func(trusted *corev3.DataSource) *clusterv3.Cluster {
		c := inline(assigned([]*corev3.Address{at("10.0.0.8", 443), at("otel.example", 443)}))
		c.TransportSocket = &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(t, &tlsv3.UpstreamTlsContext{
			CommonTlsContext: &tlsv3.CommonTlsContext{ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
				ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: trusted},
			}},
		})}}
		return c
	}
	file := &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: "/etc/passwd"}}
	own, left, err := endpoints(t, here, verified(file))
	got := new(clusterv3.Cluster)
	if err != nil || len(left) != 1 || proto.Unmarshal(own, got) != nil || got.GetTransportSocket() != nil || len(got.GetLoadAssignment().GetEndpoints()) != 0 {
		t.Errorf("%v, left out %v: %v", err, left, got)
	}
	rooted := here
	rooted.Roots = "/roots"
	if own, err := admit(t, rooted, verified(file)); err != nil || !strings.Contains(string(own), "/roots") {
		t.Errorf("with authorities: %v", err)
	}
	kept := verified(&corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "PEM"}})
	kept.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint().Address = at("169.254.169.254", 80)
	own, left, err = endpoints(t, here, kept)
	if err != nil || len(left) != 1 || !strings.Contains(string(own), "PEM") || !strings.Contains(string(own), "otel.example") {
		t.Errorf("with authorities of its own: %v, left out %v", err, left)
	}
}

// TestNoClusterBearsAReservedName: the name in the bootstrap leads to the relay.
func TestNoClusterBearsAReservedName(t *testing.T) {
	holds(t, here, "the relay's", &clusterv3.Cluster{Name: bootstrap.ADSCluster}, "which is the bootstrap's")
	holds(t, here, "another", &clusterv3.Cluster{Name: "ads_cluster"}, "")
}

// TestNothingNamesTheRelay: a listener that leads to it would carry strangers there.
func TestNothingNamesTheRelay(t *testing.T) {
	const name, relay = bootstrap.ADSCluster, "which leads to the proxy's agent"
	to := func(action *routev3.RouteAction) proto.Message {
		return &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Routes: []*routev3.Route{{Action: &routev3.Route_Route{Route: action}}}}}}
	}
	through := func(filter proto.Message) proto.Message {
		return &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, filter)}}}}}}
	}
	matched := &routev3.RouteMatch{Headers: []*routev3.HeaderMatcher{{HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
	}}}}
	for what, c := range map[string]struct {
		m    proto.Message
		want string
	}{
		"a route":       {to(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name}}), relay},
		"a share":       {to(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_WeightedClusters{WeightedClusters: &routev3.WeightedCluster{Clusters: []*routev3.WeightedCluster_ClusterWeight{{Name: name}}}}}), relay},
		"a mirror":      {to(&routev3.RouteAction{RequestMirrorPolicies: []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: name}}}), relay},
		"connections":   {through(&tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: name}}), relay},
		"a service":     {&corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: name}}}, relay},
		"an assignment": {&endpointv3.ClusterLoadAssignment{ClusterName: name}, relay},
		"another name":  {to(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name + "x"}}), ""},
		"a comparison":  {&routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Routes: []*routev3.Route{{Match: matched}}}}}, ""},
	} {
		holds(t, here, what, c.m, c.want)
	}
}
