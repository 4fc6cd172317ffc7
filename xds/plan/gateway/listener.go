package gateway

import (
	"fmt"
	"strings"
	"time"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// Limits of connections at the edge, after Envoy's recommendations for edge
// proxies. Bodies that the filter reads have their own limit on the route.
const (
	connectionBuffer = 32 << 10 // bytes
	maxStreams       = 100
	streamWindow     = 64 << 10 // bytes
	connectionWindow = 1 << 20  // bytes
	streamIdle       = 300 * time.Second
	connectionIdle   = time.Hour
	headersTimeout   = 10 * time.Second
	handshakeTimeout = 10 * time.Second
)

// endpoint is what a listener cell reads.
type endpoint struct {
	scheme, address string
	port            uint32
}

func (e endpoint) name() string { return fmt.Sprintf("gateway:%s:%d", e.scheme, e.port) }

// listener builds one gateway listener.
func listener(e endpoint) (*resource.Resource, error) {
	chain := &listenerv3.FilterChain{TransportSocketConnectTimeout: durationpb.New(handshakeTimeout)}
	manager, err := connectionManager(e.scheme)
	if err != nil {
		return nil, err
	}
	chain.Filters = []*listenerv3.Filter{{
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager},
	}}
	if e.scheme == "https" {
		socket, err := downstreamTLS()
		if err != nil {
			return nil, err
		}
		chain.TransportSocket = transportSocket(socket)
	}
	address := e.address
	if address == "" {
		address = "0.0.0.0"
	}
	return plan.Freeze(resource.Listener, e.name(), &listenerv3.Listener{
		Name: e.name(), StatPrefix: strings.ReplaceAll(e.name(), ":", "_"),
		Address:                       socketAddress(address, e.port),
		FilterChains:                  []*listenerv3.FilterChain{chain},
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
	})
}

func downstreamTLS() (*anypb.Any, error) {
	return plan.Pack(&tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsParams:                      &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
		AlpnProtocols:                  []string{"h2", "http/1.1"},
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret(SecretServer)},
	}})
}

// connectionManager is the HTTP part of a listener. It has no request timeout,
// because uploads and streams may be long; slow headers and idle streams end.
func connectionManager(scheme string) (*anypb.Any, error) {
	mutations, err := plan.Pack(&earlyv3.HeaderMutation{Mutations: mutations()})
	if err != nil {
		return nil, err
	}
	filter, err := chain.Filter()
	if err != nil {
		return nil, err
	}
	router, err := plan.Pack(&routerv3.Router{SuppressEnvoyHeaders: true})
	if err != nil {
		return nil, err
	}
	return plan.Pack(&hcmv3.HttpConnectionManager{
		StatPrefix: "gateway_" + scheme,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: TableName, ConfigSource: plan.ADS(),
		}},
		UseRemoteAddress:             wrapperspb.Bool(true),
		InternalAddressConfig:        nobodyInternal(),
		NormalizePath:                wrapperspb.Bool(true),
		MergeSlashes:                 true,
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
		SchemeHeaderTransformation: &corev3.SchemeHeaderTransformation{
			Transformation: &corev3.SchemeHeaderTransformation_SchemeToOverwrite{SchemeToOverwrite: scheme},
		},
		EarlyHeaderMutationExtensions: []*corev3.TypedExtensionConfig{{
			Name: "envoy.http.early_header_mutation.header_mutation", TypedConfig: mutations,
		}},
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			IdleTimeout:                  durationpb.New(connectionIdle),
			HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_ALLOW,
		},
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams:        wrapperspb.UInt32(maxStreams),
			InitialStreamWindowSize:     wrapperspb.UInt32(streamWindow),
			InitialConnectionWindowSize: wrapperspb.UInt32(connectionWindow),
		},
		StreamIdleTimeout:          durationpb.New(streamIdle),
		RequestHeadersTimeout:      durationpb.New(headersTimeout),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		Via:                        "1.1 meshgate",
		UpgradeConfigs:             []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		HttpFilters: []*hcmv3.HttpFilter{filter, {
			Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
		}},
	})
}

// nobodyInternal trusts no client, wherever it is, to steer Envoy by x-envoy-*
// headers. A list without entries would mean all private addresses, so it names
// one that cannot be a peer's.
func nobodyInternal() *hcmv3.HttpConnectionManager_InternalAddressConfig {
	return &hcmv3.HttpConnectionManager_InternalAddressConfig{
		CidrRanges: []*corev3.CidrRange{{AddressPrefix: "255.255.255.255", PrefixLen: wrapperspb.UInt32(32)}},
	}
}

// mutations run before routing and before Envoy sets its own headers, on every
// request, so they are only what cannot wait for the filter: the header by which
// the OAuth server's route is chosen goes, and the client's X-Forwarded-Proto,
// which Envoy is about to overwrite, is kept (an empty value would leave a
// client's own header standing, so that goes first). Everything else that clients may not say of
// themselves is removed by the filter, in one pass instead of one for each name.
func mutations() []*mutationv3.HeaderMutation {
	return []*mutationv3.HeaderMutation{
		{Action: &mutationv3.HeaderMutation_Remove{Remove: contract.HeaderOAuthPlugin}},
		{Action: &mutationv3.HeaderMutation_Remove{Remove: contract.HeaderOAuthProto}},
		{Action: &mutationv3.HeaderMutation_Append{Append: overwrite(contract.HeaderOAuthProto, "%REQ(X-FORWARDED-PROTO)%")}},
	}
}

func overwrite(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

func socketAddress(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

func transportSocket(config *anypb.Any) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
	}
}

func secret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: plan.ADS()}
}
