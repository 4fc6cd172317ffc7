package gateway

import (
	"encoding/hex"
	"errors"
	"fmt"
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
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

const (
	// defaultConnectTimeout is the connect timeout of a service that sets none.
	defaultConnectTimeout = 60 * time.Second
	oauthConnectTimeout   = 5 * time.Second
	// Envoy's own limits of 1,024 requests and 3 retries would refuse requests
	// that the upstream could serve; the gateway leaves limiting to listeners.
	breaker = 1 << 20
)

// clusterKey is all that the cluster of a service reads.
type clusterKey struct {
	id, protocol, host string
	port               int
	connect            int
	verify             bool
	depth              int // -1: unlimited
	roots              string
}

func clusterKeyOf(s *view.Service, p Params) clusterKey {
	k := clusterKey{
		id: s.ID, protocol: s.Spec.Protocol, host: strings.ToLower(s.Spec.Host), port: s.Spec.Port,
		connect: s.Spec.ConnectTimeout, depth: -1,
	}
	if k.protocol == "https" {
		// Not to verify must be said: an unset tls_verify verifies.
		k.verify = s.Spec.TLSVerify == nil || *s.Spec.TLSVerify
	}
	if k.verify {
		k.roots = p.RootsFile
		if s.Spec.TLSVerifyDepth != nil {
			k.depth = *s.Spec.TLSVerifyDepth
		}
	}
	return k
}

// serviceCluster builds the cluster of a service. Its name contains a digest of
// all the rest, so that any change is a new cluster beside the old one: routes
// switch when it is warm, and the old one goes last.
func serviceCluster(k clusterKey) (*resource.Resource, error) {
	if k.port < 1 || k.port > 65535 {
		return nil, fmt.Errorf("service port %d cannot be connected to", k.port)
	}
	connect := defaultConnectTimeout
	if k.connect > 0 {
		connect = time.Duration(k.connect) * time.Millisecond
	}
	c, err := cluster(k.host, uint32(k.port), connect)
	if err != nil {
		return nil, err
	}
	switch k.protocol {
	case "http":
	case "https":
		socket, err := upstreamTLS(k)
		if err != nil {
			return nil, err
		}
		c.TransportSocket = transportSocket(socket)
	default:
		return nil, fmt.Errorf("service protocol %q cannot be served", k.protocol)
	}
	c.AltStatName = "service_" + strings.ReplaceAll(k.id, "-", "_")
	c.LoadAssignment.ClusterName = "service:" + k.id
	c.Name = c.LoadAssignment.ClusterName
	content, err := plan.Freeze(resource.Cluster, c.Name, c)
	if err != nil {
		return nil, err
	}
	digest := xxh3.Hash128(content.Body).Bytes()
	c.Name += ":" + hex.EncodeToString(digest[:6])
	return plan.Freeze(resource.Cluster, c.Name, c)
}

// cluster is one host over HTTP/1.1 without TLS. Name and assignment name are
// the caller's.
func cluster(host string, port uint32, connect time.Duration) (*clusterv3.Cluster, error) {
	options, err := plan.Pack(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
					HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	host = unbracket(host)
	kind := clusterv3.Cluster_STRICT_DNS
	if _, err := netip.ParseAddr(host); err == nil {
		kind = clusterv3.Cluster_STATIC
	}
	return &clusterv3.Cluster{
		Name:                          "unnamed",
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: kind},
		ConnectTimeout:                durationpb.New(connect),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
		DnsLookupFamily:               clusterv3.Cluster_V4_PREFERRED,
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxConnections: wrapperspb.UInt32(breaker), MaxPendingRequests: wrapperspb.UInt32(breaker),
			MaxRequests: wrapperspb.UInt32(breaker), MaxRetries: wrapperspb.UInt32(breaker),
		}}},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options,
		},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: "unnamed",
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socketAddress(host, port)}},
			}}}},
		},
	}, nil
}

// upstreamTLS talks TLS 1.2 or later to a service, by its host name.
func upstreamTLS(k clusterKey) (*anypb.Any, error) {
	common := &tlsv3.CommonTlsContext{
		TlsParams:     &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
		AlpnProtocols: []string{"http/1.1"},
	}
	if k.verify {
		if k.roots == "" {
			return nil, errors.New("the certificate must be verified, but the proxy has no file of root certificates")
		}
		validation := &tlsv3.CertificateValidationContext{
			TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: k.roots}},
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{
				subjectAltName(unbracket(k.host)),
			},
		}
		if k.depth >= 0 {
			validation.MaxVerifyDepth = wrapperspb.UInt32(uint32(k.depth)) //nolint:gosec // not negative
		}
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation}
	}
	return plan.Pack(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: serverName(k.host)})
}

// oauthCluster reaches the OAuth server with the proxy's client certificate.
func oauthCluster(e Endpoint) (*resource.Resource, error) {
	c, err := cluster(e.Host, e.Port, oauthConnectTimeout)
	if err != nil {
		return nil, err
	}
	c.Name = contract.OAuthCluster
	c.LoadAssignment.ClusterName = c.Name
	name := e.ServerName
	if name == "" {
		name = unbracket(e.Host)
	}
	socket, err := plan.Pack(&tlsv3.UpstreamTlsContext{
		Sni: serverName(name),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
			AlpnProtocols:                  []string{"http/1.1"},
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret(SecretIdentity)},
			ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
				CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
					DefaultValidationContext: &tlsv3.CertificateValidationContext{
						MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{subjectAltName(name)},
					},
					ValidationContextSdsSecretConfig: secret(SecretCA),
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	c.TransportSocket = transportSocket(socket)
	return plan.Freeze(resource.Cluster, c.Name, c)
}

func subjectAltName(name string) *tlsv3.SubjectAltNameMatcher {
	kind := tlsv3.SubjectAltNameMatcher_DNS
	if ip, err := netip.ParseAddr(name); err == nil {
		kind, name = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, ip.String()
	}
	return &tlsv3.SubjectAltNameMatcher{
		SanType: kind,
		Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}, IgnoreCase: false},
	}
}

// serverName is what may stand in SNI: a DNS name, never an address (RFC 6066, 3).
func serverName(host string) string {
	if _, err := netip.ParseAddr(unbracket(host)); err == nil {
		return ""
	}
	return host
}

func unbracket(host string) string {
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// authority is the Host header for a service: without the protocol's own port.
func authority(s *view.Service) string {
	host, port := unbracket(s.Spec.Host), strconv.Itoa(s.Spec.Port)
	if (s.Spec.Protocol == "http" && s.Spec.Port == 80) || (s.Spec.Protocol == "https" && s.Spec.Port == 443) {
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, port)
}
