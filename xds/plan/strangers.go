package plan

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// These are limits of connections with clients that nobody knows, following Envoy's
// recommendations for edge proxies.
const (
	// ConnectionBuffer is in bytes.
	ConnectionBuffer = 32 << 10
	StreamIdle       = 300 * time.Second
	ConnectionIdle   = time.Hour
	HeadersTimeout   = 10 * time.Second
	HandshakeTimeout = 10 * time.Second

	maxStreams = 100
	// StreamWindow and ConnectionWindow are those of HTTP/2 in bytes.
	StreamWindow     = 64 << 10
	ConnectionWindow = 1 << 20
)

// StrangersHTTP2 bounds what a client has in flight on one connection.
func StrangersHTTP2() *corev3.Http2ProtocolOptions {
	return &corev3.Http2ProtocolOptions{
		MaxConcurrentStreams:        wrapperspb.UInt32(maxStreams),
		InitialStreamWindowSize:     wrapperspb.UInt32(StreamWindow),
		InitialConnectionWindowSize: wrapperspb.UInt32(ConnectionWindow),
	}
}

// NobodyInternal makes Envoy trust no client, wherever it is, to control it with x-envoy-*
// headers. An empty list would mean all private addresses, so the list contains an address
// that no peer can have.
func NobodyInternal() *hcmv3.HttpConnectionManager_InternalAddressConfig {
	return &hcmv3.HttpConnectionManager_InternalAddressConfig{
		CidrRanges: []*corev3.CidrRange{{AddressPrefix: "255.255.255.255", PrefixLen: wrapperspb.UInt32(32)}},
	}
}

// Inspector returns the listener filter that reads which name a client asks for in TLS.
func Inspector() (*listenerv3.ListenerFilter, error) {
	packed, err := Pack(&inspectorv3.TlsInspector{})
	if err != nil {
		return nil, err
	}
	return &listenerv3.ListenerFilter{
		Name: "envoy.filters.listener.tls_inspector", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: packed},
	}, nil
}

// ServerTLS presents certificates, which are secrets of these names, to clients that nobody
// knows. alpn are the protocols that are offered.
func ServerTLS(secrets, alpn []string) *tlsv3.DownstreamTlsContext {
	common := &tlsv3.CommonTlsContext{
		TlsParams: &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2}, AlpnProtocols: alpn,
	}
	for _, name := range secrets {
		common.TlsCertificateSdsSecretConfigs = append(common.TlsCertificateSdsSecretConfigs, &tlsv3.SdsSecretConfig{Name: name, SdsConfig: ADS()})
	}
	return &tlsv3.DownstreamTlsContext{CommonTlsContext: common}
}
