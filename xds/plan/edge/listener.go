package edge

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// endpoint is what a listener cell reads.
type endpoint struct {
	scheme, address string
	port            uint32
	// trusted is that of [Params]; certificates come from [shown].
	trusted, certificates string
	filter                contract.Mode
	tracing               Tracing
	log                   accesslog.Settings
}

func (e endpoint) name() string { return fmt.Sprintf("gateway:%s:%d", e.scheme, e.port) }

// listener builds one gateway listener. Its fields other than the filter chains never change,
// so a change of one chain leaves the connections of the others alone.
func listener(e endpoint) (*resource.Resource, error) {
	address := e.address
	if address == "" {
		address = "0.0.0.0"
	}
	out := &listenerv3.Listener{
		Name: e.name(), StatPrefix: strings.ReplaceAll(e.name(), ":", "_"),
		Address:                       socketAddress(address, e.port),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(plan.ConnectionBuffer),

		MaxConnectionsToAcceptPerSocketEvent: wrapperspb.UInt32(plan.Accepts),
	}
	if e.scheme == "https" {
		inspector, err := plan.Inspector()
		if err != nil {
			return nil, err
		}
		out.ListenerFiltersTimeout = durationpb.New(plan.HandshakeTimeout)
		out.ListenerFilters = []*listenerv3.ListenerFilter{inspector}
	}
	filters := map[bool][]*listenerv3.Filter{}
	for _, s := range filterChains(e) {
		if filters[s.trusted] == nil {
			var err error
			if filters[s.trusted], err = networkFilters(e, s.trusted); err != nil {
				return nil, err
			}
		}
		c, err := filterChain(s, e.trusted, filters[s.trusted])
		if err != nil {
			return nil, err
		}
		out.FilterChains = append(out.FilterChains, c)
	}
	return plan.Freeze(resource.Listener, e.name(), out)
}

// networkFilters returns the filters of all chains for clients that are trusted, or are not.
func networkFilters(e endpoint, trusted bool) ([]*listenerv3.Filter, error) {
	facts, err := connectionFacts(e, trusted)
	if err != nil {
		return nil, err
	}
	manager, err := connectionManager(e, trusted)
	if err != nil {
		return nil, err
	}
	return []*listenerv3.Filter{facts, {
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager},
	}}, nil
}

func filterChain(s chainSpec, trusted string, filters []*listenerv3.Filter) (*listenerv3.FilterChain, error) {
	match, err := s.match(trusted)
	if err != nil {
		return nil, err
	}
	c := &listenerv3.FilterChain{
		Name: s.name, FilterChainMatch: match, TransportSocketConnectTimeout: durationpb.New(plan.HandshakeTimeout),
		Filters: filters,
	}
	if len(s.secrets) == 0 {
		return c, nil
	}
	socket, err := downstreamTLS(s.secrets)
	if err != nil {
		return nil, err
	}
	c.TransportSocket = transportSocket(socket)
	return c, nil
}

// connectionManager returns the HTTP part of a listener. It has no request timeout, because
// uploads and streams may be long; slow headers and idle streams are ended. The
// X-Forwarded-For and -Proto of a trusted client determine the client address and the scheme.
func connectionManager(e endpoint, trusted bool) (*anypb.Any, error) {
	how, err := adapterOf(e.filter)
	if err != nil {
		return nil, err
	}
	early, filters, err := how.listener(e.scheme, trusted)
	if err != nil {
		return nil, err
	}
	router, err := plan.Pack(&routerv3.Router{SuppressEnvoyHeaders: true})
	if err != nil {
		return nil, err
	}
	tracing, err := e.tracing.traced()
	if err != nil {
		return nil, err
	}
	loggers, err := accesslog.Loggers(e.log, e.filter)
	if err != nil {
		return nil, err
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "gateway_" + e.scheme,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: how.tableName(), ConfigSource: plan.ADS(),
		}},
		UseRemoteAddress:             wrapperspb.Bool(true),
		InternalAddressConfig:        plan.NobodyInternal(),
		NormalizePath:                wrapperspb.Bool(true),
		MergeSlashes:                 true,
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
		SchemeHeaderTransformation: &corev3.SchemeHeaderTransformation{
			Transformation: &corev3.SchemeHeaderTransformation_SchemeToOverwrite{SchemeToOverwrite: e.scheme},
		},
		EarlyHeaderMutationExtensions: early,
		AppendXForwardedPort:          true,
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			IdleTimeout:                  durationpb.New(plan.ConnectionIdle),
			HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_ALLOW,
		},
		Http2ProtocolOptions:       plan.StrangersHTTP2(),
		Tracing:                    tracing,
		StreamIdleTimeout:          durationpb.New(plan.StreamIdle),
		RequestHeadersTimeout:      durationpb.New(plan.HeadersTimeout),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		Via:                        "1.1 meshgate",
		AccessLog:                  loggers,
		LocalReplyConfig:           plan.LocalReplies(),
		UpgradeConfigs:             []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		HttpFilters: append(filters, &hcmv3.HttpFilter{
			Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
		}),
	}
	if trusted {
		manager.XffNumTrustedHops = 1
		manager.SchemeHeaderTransformation = nil
	}
	return plan.Pack(manager)
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
