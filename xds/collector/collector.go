// Package collector makes the clusters of servers that take what proxies report, such as spans
// and log lines. Requests never wait for such a server: without it, only reports are lost.
package collector

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/plan"
)

const (
	// connectTimeout is short because reports wait in memory until Envoy drops them.
	connectTimeout = 5 * time.Second
	// maxConnections and maxRequests limit what a server that does not answer can occupy of a
	// proxy. What is above the limit is lost.
	maxConnections = 128
	maxRequests    = 1024
	// A connection on which nothing is acknowledged for keepaliveTime is probed, and given up after
	// keepaliveProbes of keepaliveInterval: reports would go into it until the system gives up, which
	// takes a quarter of an hour. All in seconds. Pings of HTTP/2 would not do: servers of gRPC close
	// a connection on which they come more often than every five minutes.
	keepaliveTime     = 30
	keepaliveInterval = 5
	keepaliveProbes   = 3
	// These are the buffers of all clusters of gateways, in bytes.
	connectionBuffer = 32 << 10
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
)

// Roots stands for the authorities of a proxy's machine, in configuration for proxies that do
// not say where theirs are. The agent puts the file of its own machine in its place.
const Roots = "/etc/ssl/certs/ca-certificates.crt"

// Server is a collector as a proxy reaches it. It is comparable.
type Server struct {
	// Host is an IP address, perhaps in brackets, or a name.
	Host string
	Port uint32
	// TLS requires a certificate for Host, signed by an authority in the file Roots of the
	// proxy's machine.
	TLS   bool
	Roots string
	// GRPC is HTTP/2, without TLS by prior knowledge.
	GRPC bool
	// Resolved makes even an address an endpoint that is resolved, as names are. Agents of
	// meshes take fixed addresses for those of their own workloads. And they omit a resolved
	// endpoint that they forbid, and keep its cluster, which listeners refer to.
	Resolved bool
}

// Authority returns host and port as URLs contain them.
func (s Server) Authority() string {
	return net.JoinHostPort(unbracket(s.Host), strconv.FormatUint(uint64(s.Port), 10))
}

// URL returns the URL of a path at the server.
func (s Server) URL(path string) string {
	if s.TLS {
		return "https://" + s.Authority() + path
	}
	return "http://" + s.Authority() + path
}

// Cluster returns the cluster of the server.
func (s Server) Cluster(name string) (*clusterv3.Cluster, error) {
	host := unbracket(s.Host)
	c := &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(connectTimeout),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
		UpstreamConnectionOptions: &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
			KeepaliveProbes: wrapperspb.UInt32(keepaliveProbes), KeepaliveTime: wrapperspb.UInt32(keepaliveTime), KeepaliveInterval: wrapperspb.UInt32(keepaliveInterval),
		}},
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: wrapperspb.UInt32(maxConnections), MaxPendingRequests: wrapperspb.UInt32(maxRequests), MaxRequests: wrapperspb.UInt32(maxRequests),
		}}},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
				SocketAddress: &corev3.SocketAddress{Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: s.Port}},
			}}}},
		}}}}},
	}
	if err := s.discovered(c, host); err != nil {
		return nil, err
	}
	options, err := plan.Pack(s.options())
	if err != nil {
		return nil, err
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}
	if s.TLS {
		socket, err := s.verified(host)
		if err != nil {
			return nil, err
		}
		c.TransportSocket = &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: socket}}
	}
	return c, nil
}

// discovered says how the cluster finds the address of its endpoint.
func (s Server) discovered(c *clusterv3.Cluster, host string) error {
	kind := clusterv3.Cluster_STRICT_DNS
	c.DnsLookupFamily = clusterv3.Cluster_V4_PREFERRED
	if ip, err := netip.ParseAddr(host); err == nil {
		switch {
		case !s.Resolved:
			kind = clusterv3.Cluster_STATIC
		case ip.Is4():
			c.DnsLookupFamily = clusterv3.Cluster_V4_ONLY
		default:
			c.DnsLookupFamily = clusterv3.Cluster_V6_ONLY
		}
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: kind}
	if kind != clusterv3.Cluster_STRICT_DNS {
		return nil
	}
	c.WaitForWarmOnInit = wrapperspb.Bool(false) // nothing waits until the name is resolved
	var err error
	c.TypedDnsResolverConfig, err = plan.Resolver()
	return err
}

func (s Server) options() *httpv3.HttpProtocolOptions {
	config := &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}},
	}
	if s.GRPC {
		config.ProtocolConfig = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			InitialStreamWindowSize: wrapperspb.UInt32(streamWindow), InitialConnectionWindowSize: wrapperspb.UInt32(connectionWindow),
		}}
	}
	return &httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: config}}
}

// verified speaks TLS to the server that a certificate proves.
func (s Server) verified(host string) (*anypb.Any, error) {
	if s.Roots == "" {
		return nil, errors.New("the collector cannot be verified: the machine of the proxy has no bundle of authorities")
	}
	name := &tlsv3.SubjectAltNameMatcher{SanType: tlsv3.SubjectAltNameMatcher_DNS}
	dns := strings.TrimSuffix(host, ".") // neither SNI nor certificates have the dot of the root
	sni, exact, alpn := dns, dns, "http/1.1"
	if ip, err := netip.ParseAddr(host); err == nil { // SNI is never an address (RFC 6066 section 3)
		name.SanType, sni, exact = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, "", ip.String()
	}
	name.Matcher = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: exact}}
	if s.GRPC {
		alpn = "h2"
	}
	return plan.Pack(&tlsv3.UpstreamTlsContext{Sni: sni, CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsParams: plan.TLSVersions(), AlpnProtocols: []string{alpn},
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa:                 &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: s.Roots}},
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{name},
		}},
	}})
}

func unbracket(host string) string {
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
