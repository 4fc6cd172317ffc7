package bootstrap

import (
	"errors"
	"net"
	"net/netip"
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

	"github.com/meshgate/meshgate/filter/contract"
)

// Direct says how an Envoy reaches the data-plane server by itself.
type Direct struct {
	// Host is a name or IP address among those of the server's certificate.
	Host string
	Port uint32
	// CA is the PEM bundle that the server is pinned to.
	CA []byte
	// Token is the node token. It stands in the bootstrap in clear and is not
	// renewed: only an agent reads a token again.
	Token string
}

func (d *Direct) check() error {
	switch {
	case d.Host == "" || d.Port == 0 || d.Port > 65535:
		return errors.New("the control plane's address is not host and port")
	case len(d.CA) == 0:
		return errors.New("the control plane's CA is missing")
	case d.Token == "":
		return errors.New("the node token is missing")
	}
	return nil
}

// credentials are the metadata that authenticate a stream. To the control plane they also name
// the node, because it may refuse the stream before its first request. Envoy formats them like
// headers that routes add, so % is written twice.
func (c Config) credentials() []*corev3.HeaderValue {
	header := func(name, value string) *corev3.HeaderValue {
		return &corev3.HeaderValue{Key: name, Value: strings.ReplaceAll(value, "%", "%%")}
	}
	switch {
	case c.Direct != nil:
		return []*corev3.HeaderValue{header(authorization, c.Direct.Token), header(strings.ToLower(contract.NodeHeader), c.NodeID)}
	case c.Password != "":
		return []*corev3.HeaderValue{header(authorization, Bearer(c.Password))}
	}
	return nil
}

// authorization is the name of the metadata with the credential of a stream.
const authorization = "authorization"

// Bearer returns what a stream to the relay shows as its authorization.
func Bearer(password string) string { return "Bearer " + password }

// adsCluster is HTTP/2 to whoever serves configuration. Keep-alives find one that
// hangs; xDS messages may be large, so the circuit breaker is no limit here.
func (c Config) adsCluster() (*clusterv3.Cluster, error) {
	options, err := pack(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
						Interval: durationpb.New(5 * time.Second), Timeout: durationpb.New(2 * time.Second),
					}},
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	cluster := &clusterv3.Cluster{
		Name:                 ADSCluster,
		AltStatName:          adsStat,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(time.Second),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options,
		},
	}
	address := pipe(c.Relay, 0)
	if c.Direct != nil {
		if address, err = c.Direct.reach(cluster); err != nil {
			return nil, err
		}
	}
	cluster.LoadAssignment = assignment(ADSCluster, address)
	return cluster, nil
}

// assignment is one endpoint of a cluster.
func assignment(cluster string, address *corev3.Address) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
		}}}},
	}
}

// reach gives the cluster TLS that accepts a data-plane server of this authority,
// and returns where it is. Envoy takes any one of several names: it is told the one
// that gateways do not have, and no host name beside it.
func (d *Direct) reach(cluster *clusterv3.Cluster) (*corev3.Address, error) {
	cluster.ConnectTimeout = durationpb.New(5 * time.Second)
	name := d.Host
	if ip, err := netip.ParseAddr(d.Host); err == nil {
		name = ip.String()
	} else {
		cluster.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
	}
	tls := &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		// Envoy's clients stop at TLS 1.2 unless they are told otherwise.
		TlsParams: &tlsv3.TlsParameters{
			TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		},
		AlpnProtocols: []string{"h2"},
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: d.CA}},
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
				SanType: tlsv3.SubjectAltNameMatcher_URI,
				Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: contract.DataPlaneID}},
			}},
		}},
	}}
	// RFC 6066 section 3 allows no addresses in SNI.
	if net.ParseIP(d.Host) == nil {
		tls.Sni = d.Host
	}
	config, err := pack(tls)
	if err != nil {
		return nil, err
	}
	cluster.TransportSocket = &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: name, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: d.Port},
	}}}, nil
}
