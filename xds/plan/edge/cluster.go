package edge

import (
	"encoding/hex"
	"fmt"
	"net/netip"
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
)

// clusterKey is all that the cluster of a service reads.
type clusterKey struct {
	id, name, protocol, host string
	port                     int
	connect                  int
	tls                      tlsKey
	// upstream is that which the host names, nil if it names none. named are its
	// targets while some have names, which no assignment can carry.
	upstream *view.Upstream
	named    *view.Targets
}

func clusterKeyOf(g *view.Gateway, s *view.Service, p Params) (k clusterKey, members *view.Targets) {
	k = clusterKey{
		id: s.ID, name: s.Spec.Name, protocol: s.Spec.Protocol, host: strings.ToLower(s.Spec.Host), port: s.Spec.Port,
		connect: s.Spec.ConnectTimeout,
	}
	own := g.Of(s.Scope)
	if k.upstream, _ = own.Upstream(k.host); k.upstream != nil {
		members = own.Targets(k.upstream.ID)
		if hasNames(members) {
			k.named = members
		}
	}
	k.tls = tlsKeyOf(g, s, k.upstream, p)
	if k.callsByName() && k.secure() {
		k.tls.targets = namesOf(k.named)
	}
	return k, members
}

// secure reports whether the service is spoken to in TLS.
func (k clusterKey) secure() bool {
	return k.protocol == "https" || k.protocol == "grpcs" || k.protocol == "wss"
}

// protected is the cluster of a service with the key of its TLS.
type protected struct {
	cluster *resource.Resource
	tls     tlsKey
	// byName says that endpoints have what requests to them say in Host.
	byName bool
	// assigned says that its endpoints come as an assignment.
	assigned bool
}

// protectedCluster is serviceCluster with what must not outlive a change of it.
func protectedCluster(k clusterKey) (protected, error) {
	c, err := serviceCluster(k)
	return protected{c, k.tls, k.callsByName(), k.upstream != nil && k.named == nil}, err
}

// serviceCluster builds the cluster of a service. Its name contains a digest of
// all the rest, so that any change is a new cluster beside the old one: routes
// switch when it is warm, and the old one goes last. The targets of an upstream
// are no part of it but where they have names: they come as its assignment, and
// a change of them leaves health and connections as they are.
func serviceCluster(k clusterKey) (*resource.Resource, error) {
	if k.upstream != nil && k.upstream.LeftOut {
		return nil, fmt.Errorf("upstream %s is left out: another member of the group has its id", k.upstream.ID)
	}
	c, err := discovered(k)
	if err != nil {
		return nil, err
	}
	if c.GetType() == clusterv3.Cluster_STRICT_DNS {
		if c.TypedDnsResolverConfig, err = plan.Resolver(); err != nil {
			return nil, err
		}
	}
	options := httpOptions(http2(k.protocol))
	if k.upstream != nil {
		if err := balance(c, k); err != nil {
			return nil, err
		}
		if options.OutlierDetection, err = watch(c, k); err != nil {
			return nil, err
		}
	}
	if err := speak(c, options); err != nil {
		return nil, err
	}
	if err := secured(c, k); err != nil {
		return nil, err
	}
	c.AltStatName, c.Name = k.names()
	if c.LoadAssignment != nil {
		c.LoadAssignment.ClusterName = c.Name
	}
	content, err := plan.Freeze(resource.Cluster, c.Name, c)
	if err != nil {
		return nil, err
	}
	digest := xxh3.Hash128(content.Body).Bytes()
	c.Name += ":" + hex.EncodeToString(digest[:6])
	return plan.Freeze(resource.Cluster, c.Name, c)
}

// names are that of the statistics, by which people read them, and the beginning of
// the cluster's own.
func (k clusterKey) names() (stat, name string) {
	if k.name == "" {
		return "service_" + strings.ReplaceAll(k.id, "-", "_"), "service:" + k.id
	}
	own := statLabel(k.name)
	return own + "_" + k.id[:min(len(k.id), 8)], "service:" + k.id + ":" + own
}

// secured has a cluster speak TLS where the protocol of its service is in TLS.
func secured(c *clusterv3.Cluster, k clusterKey) error {
	switch {
	case k.secure():
		socket, err := upstreamTLS(k.tls, alpn(http2(k.protocol)))
		if err != nil {
			return err
		}
		c.TransportSocket = transportSocket(socket)
		return targetSockets(c, k.tls, alpn(http2(k.protocol)))
	case k.protocol == "http", k.protocol == "grpc", k.protocol == "ws":
		return nil
	}
	return fmt.Errorf("service protocol %q cannot be served", k.protocol)
}

// discovered is a cluster that finds its hosts: those of an upstream, or the one
// that a service names.
func discovered(k clusterKey) (*clusterv3.Cluster, error) {
	connect := defaultConnectTimeout
	if k.connect > 0 {
		connect = time.Duration(k.connect) * time.Millisecond
	}
	if k.upstream != nil {
		return pooled(k, connect)
	}
	if k.port < 1 || k.port > 65535 {
		return nil, fmt.Errorf("service port %d cannot be connected to", k.port)
	}
	return single(k.host, uint32(k.port), connect), nil
}

func http2(protocol string) bool { return protocol == "grpc" || protocol == "grpcs" }

func alpn(http2 bool) string {
	if http2 {
		return "h2"
	}
	return "http/1.1"
}

// httpOptions speak HTTP/1.1, or HTTP/2 with prior knowledge.
func httpOptions(http2 bool) *httpv3.HttpProtocolOptions {
	config := &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}},
	}
	if http2 {
		config.ProtocolConfig = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			InitialStreamWindowSize:     wrapperspb.UInt32(plan.StreamWindow),
			InitialConnectionWindowSize: wrapperspb.UInt32(plan.ConnectionWindow),
		}}
	}
	return &httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: config},
	}
}

func speak(c *clusterv3.Cluster, options *httpv3.HttpProtocolOptions) error {
	packed, err := plan.Pack(options)
	if err != nil {
		return err
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed}
	return nil
}

// cluster is what all clusters have in common. The name is the caller's to set.
func cluster(kind clusterv3.Cluster_DiscoveryType, connect time.Duration) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                          "unnamed",
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: kind},
		ConnectTimeout:                durationpb.New(connect),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(plan.ConnectionBuffer),
		DnsLookupFamily:               clusterv3.Cluster_V4_PREFERRED,
		// The gateway leaves limiting to listeners.
		CircuitBreakers: plan.Unlimited(),
	}
}

// single is one host by address or name.
func single(host string, port uint32, connect time.Duration) *clusterv3.Cluster {
	host = unbracket(host)
	kind := clusterv3.Cluster_STRICT_DNS
	if isAddress(host) {
		kind = clusterv3.Cluster_STATIC
	}
	c := cluster(kind, connect)
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{
		ClusterName: "unnamed",
		Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{lbEndpoint(host, port)}}},
	}
	return c
}

func lbEndpoint(host string, port uint32) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socketAddress(host, port)}},
	}
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// oauthIdle is how long a connection to the OAuth server is kept without a
// request: shorter than that server keeps it, so that no request meets its end,
// and long, so that issuing does not depend on new connections.
const oauthIdle = 55 * time.Minute

// oauthCluster reaches the OAuth server, which is part of the data-plane server,
// with the proxy's client certificate.
func oauthCluster(e Endpoint) (*resource.Resource, error) {
	c := single(e.Host, e.Port, oauthConnectTimeout)
	options := httpOptions(false)
	options.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(oauthIdle)}
	if err := speak(c, options); err != nil {
		return nil, err
	}
	c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
		KeepaliveProbes: wrapperspb.UInt32(3), KeepaliveTime: wrapperspb.UInt32(30), KeepaliveInterval: wrapperspb.UInt32(5),
	}}
	c.Name = contract.OAuthCluster
	c.LoadAssignment.ClusterName = c.Name
	name := e.ServerName
	if name == "" {
		name = unbracket(e.Host)
	}
	socket, err := plan.Pack(&tlsv3.UpstreamTlsContext{
		Sni: serverName(name),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      plan.TLSVersions(),
			AlpnProtocols:                  []string{"http/1.1"},
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret(SecretIdentity)},
			ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
				CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
					DefaultValidationContext: &tlsv3.CertificateValidationContext{
						MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{dataPlane()},
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

// dataPlane is the name that no gateway has a certificate for. Envoy takes any one
// of several names, so it stands alone.
func dataPlane() *tlsv3.SubjectAltNameMatcher {
	return &tlsv3.SubjectAltNameMatcher{
		SanType: tlsv3.SubjectAltNameMatcher_URI,
		Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: contract.DataPlaneID}},
	}
}
