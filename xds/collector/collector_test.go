package collector

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// TestDiscovery: addresses of gateways are fixed. Those of sidecars are resolved as names are,
// in the family that they have.
func TestDiscovery(t *testing.T) {
	for _, c := range []struct {
		host     string
		resolved bool
		kind     clusterv3.Cluster_DiscoveryType
		family   clusterv3.Cluster_DnsLookupFamily
		at       string
	}{
		{"127.0.0.1", false, clusterv3.Cluster_STATIC, clusterv3.Cluster_V4_PREFERRED, "127.0.0.1"},
		{"[::1]", false, clusterv3.Cluster_STATIC, clusterv3.Cluster_V4_PREFERRED, "::1"},
		{"otel.example", false, clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_V4_PREFERRED, "otel.example"},
		{"127.0.0.1", true, clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_V4_ONLY, "127.0.0.1"},
		{"::1", true, clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_V6_ONLY, "::1"},
		{"otel.example", true, clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_V4_PREFERRED, "otel.example"},
	} {
		got, err := Server{Host: c.host, Port: 4317, Resolved: c.resolved}.Cluster("x")
		if err != nil {
			t.Fatal(err)
		}
		at := got.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
		if got.GetType() != c.kind || got.GetDnsLookupFamily() != c.family || at.GetAddress() != c.at || at.GetPortValue() != 4317 {
			t.Errorf("%s, resolved %t: %v", c.host, c.resolved, got)
		}
		if waits := got.GetWaitForWarmOnInit() == nil || got.GetWaitForWarmOnInit().GetValue(); waits != (c.kind == clusterv3.Cluster_STATIC) {
			t.Errorf("%s: the proxy waits for the resolver: %t", c.host, waits)
		}
	}
}

// TestServersAreVerified by the name or address in the URL. Without authorities there is no
// cluster.
func TestServersAreVerified(t *testing.T) {
	for _, c := range []struct {
		host, sni, exact string
		kind             tlsv3.SubjectAltNameMatcher_SanType
		grpc             bool
		alpn             string
	}{
		{"otel.example", "otel.example", "otel.example", tlsv3.SubjectAltNameMatcher_DNS, true, "h2"},
		{"otel.example.", "otel.example", "otel.example", tlsv3.SubjectAltNameMatcher_DNS, true, "h2"},
		{"[::1]", "", "::1", tlsv3.SubjectAltNameMatcher_IP_ADDRESS, false, "http/1.1"},
	} {
		s := Server{Host: c.host, Port: 1, TLS: true, GRPC: c.grpc}
		if _, err := s.Cluster("x"); err == nil || !strings.Contains(err.Error(), "cannot be verified") {
			t.Errorf("without authorities: %v", err)
		}
		s.Roots = "/roots"
		got, err := s.Cluster("x")
		if err != nil {
			t.Fatal(err)
		}
		var tls tlsv3.UpstreamTlsContext
		if err := got.GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls); err != nil {
			t.Fatal(err)
		}
		v := tls.GetCommonTlsContext().GetValidationContext()
		name := v.GetMatchTypedSubjectAltNames()[0]
		if tls.GetSni() != c.sni || v.GetTrustedCa().GetFilename() != "/roots" || name.GetSanType() != c.kind || name.GetMatcher().GetExact() != c.exact ||
			tls.GetCommonTlsContext().GetAlpnProtocols()[0] != c.alpn {
			t.Errorf("%s: %v", c.host, &tls)
		}
	}
}

// TestOTLP: spans go to a path over HTTP, or over gRPC.
func TestOTLP(t *testing.T) {
	config := func(s Server) *tracev3.OpenTelemetryConfig {
		p, err := s.OTLP("@x", "web", "/v1/traces")
		if err != nil {
			t.Fatal(err)
		}
		c := new(tracev3.OpenTelemetryConfig)
		if err := p.GetTypedConfig().UnmarshalTo(c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	s := Server{Host: "::1", Port: 4318, TLS: true}
	if c := config(s); c.GetHttpService().GetHttpUri().GetUri() != "https://[::1]:4318/v1/traces" || c.GetGrpcService() != nil || c.GetServiceName() != "web" {
		t.Errorf("HTTP: %v", c)
	}
	s.GRPC = true
	if c := config(s); c.GetGrpcService().GetEnvoyGrpc().GetClusterName() != "@x" || c.GetGrpcService().GetEnvoyGrpc().GetAuthority() != "[::1]:4318" || c.GetHttpService() != nil {
		t.Errorf("gRPC: %v", c)
	}
}

// TestDeadConnectionsAreGivenUp: a collector whose machine is gone holds reports for no longer
// than its connection is probed, and only so many of them.
func TestDeadConnectionsAreGivenUp(t *testing.T) {
	c, err := Server{Host: "192.0.2.1", Port: 4317, GRPC: true}.Cluster("traces")
	if err != nil {
		t.Fatal(err)
	}
	alive := c.GetUpstreamConnectionOptions().GetTcpKeepalive()
	if longest := alive.GetKeepaliveTime().GetValue() + alive.GetKeepaliveProbes().GetValue()*alive.GetKeepaliveInterval().GetValue(); longest == 0 || longest > 60 {
		t.Errorf("a connection without answers lasts %d s", longest)
	}
	if th := c.GetCircuitBreakers().GetThresholds(); len(th) != 1 || th[0].GetMaxRequests().GetValue() == 0 || th[0].GetMaxPendingRequests().GetValue() == 0 {
		t.Errorf("requests are not bounded: %v", th)
	}
}
