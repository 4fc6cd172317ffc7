package main

import (
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// secured is a TLS context with an identity and a bundle from SDS.
func secured() *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: "identity"}},
		ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext:         &tlsv3.CertificateValidationContext{},
			ValidationContextSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: "bundle"},
		}},
	}
}

func upstream(t testing.TB) *core.TransportSocket {
	return &core.TransportSocket{Name: "tls", ConfigType: &core.TransportSocket_TypedConfig{TypedConfig: pack(t, &tlsv3.UpstreamTlsContext{Sni: "x", CommonTlsContext: secured()})}}
}

func edsCluster(t testing.TB, name, assignment string, connections uint32) *cluster.Cluster {
	return &cluster.Cluster{
		Name: name, ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig: &cluster.Cluster_EdsClusterConfig{ServiceName: assignment},
		CircuitBreakers:  &cluster.CircuitBreakers{Thresholds: []*cluster.CircuitBreakers_Thresholds{{MaxConnections: wrapperspb.UInt32(connections)}}},
		TransportSocket:  upstream(t),
	}
}

func httpListener(t testing.TB, name, routes string) *listener.Listener {
	manager := &hcm.HttpConnectionManager{StatPrefix: "x", RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{RouteConfigName: routes}}}
	chain := &listener.FilterChain{
		Filters: []*listener.Filter{{Name: "hcm", ConfigType: &listener.Filter_TypedConfig{TypedConfig: pack(t, manager)}}},
		TransportSocket: &core.TransportSocket{Name: "tls", ConfigType: &core.TransportSocket_TypedConfig{
			TypedConfig: pack(t, &tlsv3.DownstreamTlsContext{CommonTlsContext: secured()}),
		}},
	}
	return &listener.Listener{Name: name, FilterChains: []*listener.FilterChain{chain, chain}}
}

func TestReferences(t *testing.T) {
	static := edsCluster(t, "local", "", 1)
	static.ClusterDiscoveryType = &cluster.Cluster_Type{Type: cluster.Cluster_STATIC}
	static.TransportSocket = nil
	matches := edsCluster(t, "m", "", 1)
	matches.TransportSocketMatches = []*cluster.Cluster_TransportSocketMatch{{Name: "tls", TransportSocket: matches.TransportSocket}}
	matches.TransportSocket = nil
	plain := edsCluster(t, "plain", "", 1)
	plain.EdsClusterConfig, plain.TransportSocket = nil, nil
	catchAll := httpListener(t, "l", "routes")
	catchAll.DefaultFilterChain, catchAll.FilterChains = catchAll.FilterChains[0], nil
	single := edsCluster(t, "v", "", 1)
	single.TransportSocket.ConfigType = &core.TransportSocket_TypedConfig{TypedConfig: pack(t, &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: "only"}},
	}})}
	both := []string{"identity", "bundle"}
	tests := map[string]struct {
		kind kind
		in   proto.Message
		want *facts
	}{
		"a service name":          {cds, edsCluster(t, "a", "b", 1), &facts{endpoints: "b", secrets: both}},
		"no service name":         {cds, edsCluster(t, "a", "", 1), &facts{endpoints: "a", secrets: both}},
		"static":                  {cds, static, &facts{}},
		"socket matches":          {cds, matches, &facts{endpoints: "m", secrets: both}},
		"plain":                   {cds, plain, &facts{endpoints: "plain"}},
		"validation alone":        {cds, single, &facts{endpoints: "v", secrets: []string{"only"}}},
		"two chains, one table":   {lds, httpListener(t, "l", "routes"), &facts{routes: []string{"routes"}, secrets: both}},
		"the default chain":       {lds, catchAll, &facts{routes: []string{"routes"}, secrets: both}},
		"a listener of no chains": {lds, &listener.Listener{Name: "l"}, &facts{}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := references(c.kind, marshal(t, c.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(facts{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func assignment(name, host string, ports ...uint32) *endpoint.ClusterLoadAssignment {
	var hosts []*endpoint.LbEndpoint
	for _, p := range ports {
		hosts = append(hosts, &endpoint.LbEndpoint{HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{
			Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
				Address: host, PortSpecifier: &core.SocketAddress_PortValue{PortValue: p},
			}}},
		}}})
	}
	return &endpoint.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpoint.LocalityLbEndpoints{{}, {LbEndpoints: hosts}}}
}

func TestHasEndpoint(t *testing.T) {
	b := marshal(t, assignment("svc-0", "127.1.0.1", 10000, 10007))
	for _, c := range []struct {
		host string
		port uint64
		want bool
	}{{"127.1.0.1", 10000, true}, {"127.1.0.1", 10007, true}, {"127.1.0.1", 10001, false}, {"127.1.0.2", 10000, false}} {
		if got, err := hasEndpoint(b, c.host, c.port); err != nil || got != c.want {
			t.Errorf("%s:%d: %t, %v", c.host, c.port, got, err)
		}
	}
}

func TestMaxConnections(t *testing.T) {
	if got, err := maxConnections(marshal(t, edsCluster(t, "a", "", 2345))); err != nil || got != 2345 {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := maxConnections(marshal(t, &cluster.Cluster{Name: "a"})); err != nil || got != 0 {
		t.Errorf("%d, %v", got, err)
	}
}

func TestPemOf(t *testing.T) {
	inline := func(s string) *core.DataSource {
		return &core.DataSource{Specifier: &core.DataSource_InlineString{InlineString: s}}
	}
	raw := &core.DataSource{Specifier: &core.DataSource_InlineBytes{InlineBytes: []byte("chain")}}
	identity := &tlsv3.Secret{Name: "i", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: raw, PrivateKey: inline("key")}}}
	bundle := &tlsv3.Secret{Name: "b", Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inline("roots")}}}
	if chain, roots, err := pemOf(marshal(t, identity)); err != nil || string(chain) != "chain" || roots != nil {
		t.Errorf("%q %q %v", chain, roots, err)
	}
	if chain, roots, err := pemOf(marshal(t, bundle)); err != nil || chain != nil || string(roots) != "roots" {
		t.Errorf("%q %q %v", chain, roots, err)
	}
}

func TestResponse(t *testing.T) {
	m := &discovery.DeltaDiscoveryResponse{
		SystemVersionInfo: "7", TypeUrl: typeEndpoint, Nonce: "n", RemovedResources: []string{"x", "y"},
		Resources: []*discovery.Resource{{Name: "a", Version: "1", Resource: pack(t, assignment("a", "h", 1))}, {Name: "b", Version: "2", Aliases: []string{"c"}}},
	}
	r := response{items: []item{{name: "stale"}}, removed: []string{"stale"}}
	if err := r.read(marshal(t, m)); err != nil {
		t.Fatal(err)
	}
	want := response{
		url: []byte(typeEndpoint), nonce: []byte("n"), removed: []string{"x", "y"},
		items: []item{{"a", "1", marshal(t, assignment("a", "h", 1))}, {name: "b", version: "2"}},
	}
	if d := cmp.Diff(want, r, cmp.AllowUnexported(response{}, item{})); d != "" {
		t.Error(d)
	}
}

func TestRequest(t *testing.T) {
	r := request{
		node: "fleet.dp-1", kind: rds, subscribe: []string{"a", "b"}, unsubscribe: []string{"c"},
		versions: map[string]string{"a": "1", "d": ""}, nonce: []byte("n"),
	}
	got := &discovery.DeltaDiscoveryRequest{}
	if err := proto.Unmarshal(r.append(nil), got); err != nil {
		t.Fatal(err)
	}
	want := &discovery.DeltaDiscoveryRequest{
		Node: &core.Node{Id: "fleet.dp-1"}, TypeUrl: typeRoute, ResourceNamesSubscribe: []string{"a", "b"},
		ResourceNamesUnsubscribe: []string{"c"}, InitialResourceVersions: map[string]string{"a": "1", "d": ""}, ResponseNonce: "n",
	}
	if !proto.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// FuzzScan checks that no input makes a scanner fail but by an error, and that
// what protobuf reads, the scanners read alike.
func FuzzScan(f *testing.F) {
	f.Add(marshal(f, edsCluster(f, "a", "b", 5)))
	f.Add(marshal(f, httpListener(f, "l", "r")))
	f.Add(marshal(f, assignment("svc", "127.0.0.1", 5)))
	f.Add(marshal(f, &discovery.DeltaDiscoveryResponse{TypeUrl: typeRoute, Nonce: "n", Resources: []*discovery.Resource{{Name: "a"}}}))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = references(cds, b)
		_, _ = references(lds, b)
		_, _ = hasEndpoint(b, "127.0.0.1", 5)
		_, _ = maxConnections(b)
		_, _, _ = pemOf(b)
		var r response
		err := r.read(b)
		m := &discovery.DeltaDiscoveryResponse{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		if err != nil {
			t.Fatalf("protobuf reads it, the scanner says %v", err)
		}
		if string(r.url) != m.TypeUrl || string(r.nonce) != m.Nonce || len(r.items) != len(m.Resources) || len(r.removed) != len(m.RemovedResources) {
			t.Errorf("got %+v, want %v", r, m)
		}
		for i, it := range r.items {
			if it.name != m.Resources[i].Name || it.version != m.Resources[i].Version {
				t.Errorf("item %d: got %+v, want %v", i, it, m.Resources[i])
			}
		}
	})
}
