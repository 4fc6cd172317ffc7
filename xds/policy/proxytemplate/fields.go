package proxytemplate

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	// These are the extensions that templates may use; see fields.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
)

// fields lists what a template may set, by message and field. A message that is not here cannot
// be made, and a field that is not here cannot be set: whatever a later version of Envoy brings is
// refused until somebody has looked at it. What other policies do is left to them (health checks,
// outliers, rings, mirrors, retries, tracing, certificates), and so is everything by which the mesh
// protects a proxy (who is trusted, how a path is read, who calls).
//
// Nothing here makes Envoy wait for something that may never come, which would hold back all later
// changes: no health check of a cluster, no route table from elsewhere, no secret.
var fields = map[protoreflect.FullName]map[protoreflect.Name]rule{
	"envoy.config.cluster.v3.Cluster": {
		"name": {in: made, bound: ownName}, "type": {in: made, bound: oneOf(clusterTypes...)}, "load_assignment": {in: made},
		"alt_stat_name":     {in: made, bound: texts(255)},
		"connect_timeout":   {in: anywhere, bound: between(time.Millisecond, time.Minute)},
		"lb_policy":         {in: made, bound: oneOf("ROUND_ROBIN", "LEAST_REQUEST", "RANDOM")},
		"dns_lookup_family": {in: made}, "respect_dns_ttl": {in: made},
		"dns_refresh_rate":                  {in: made, bound: between(time.Second, time.Hour)},
		"per_connection_buffer_limit_bytes": {in: anywhere, bound: sized(buffers)},
		"circuit_breakers":                  {in: made}, "upstream_connection_options": {in: anywhere},
		"close_connections_on_host_health_failure": {in: anywhere},
	},
	"envoy.config.cluster.v3.CircuitBreakers": {"thresholds": {in: made, most: 2}},
	// A cluster that leads back to its own proxy must not use up its descriptors.
	"envoy.config.cluster.v3.CircuitBreakers.Thresholds": {
		"priority": {in: made}, "max_connections": {in: made, bound: sized(thresholds)}, "max_pending_requests": {in: made, bound: sized(thresholds)},
		"max_requests": {in: made, bound: sized(thresholds)}, "max_retries": {in: made, bound: sized(thresholds)},
	},
	"envoy.config.cluster.v3.UpstreamConnectionOptions": {"tcp_keepalive": {in: anywhere}},
	"envoy.config.core.v3.TcpKeepalive": {
		"keepalive_probes": {in: anywhere, bound: sized(limits{1, 127})}, "keepalive_time": {in: anywhere, bound: sized(limits{1, 32767})},
		"keepalive_interval": {in: anywhere, bound: sized(limits{1, 32767})},
	},
	"envoy.config.endpoint.v3.ClusterLoadAssignment": {"cluster_name": {in: made, bound: texts(255)}, "endpoints": {in: made}},
	"envoy.config.endpoint.v3.LocalityLbEndpoints":   {"lb_endpoints": {in: made, most: 64}},
	"envoy.config.endpoint.v3.LbEndpoint":            {"endpoint": {in: made}, "load_balancing_weight": {in: made, bound: sized(limits{1, 128})}},
	"envoy.config.endpoint.v3.Endpoint":              {"address": {in: made, bound: reachable}},
	"envoy.config.core.v3.Address":                   {"socket_address": {in: made}},
	"envoy.config.core.v3.SocketAddress":             {"address": {in: made}, "port_value": {in: made}, "protocol": {in: made, bound: oneOf("TCP")}},

	"envoy.config.listener.v3.Listener": {
		"name": {in: made, bound: ownName}, "address": {in: made, bound: listenable}, "filter_chains": {in: made, most: 1},
		"stat_prefix":                       {in: made, bound: texts(255)},
		"per_connection_buffer_limit_bytes": {in: anywhere, bound: sized(buffers)},
		"tcp_backlog_size":                  {in: anywhere, bound: sized(limits{1, 1 << 16})},
	},
	"envoy.config.listener.v3.FilterChain": {"name": {in: made, bound: texts(255)}, "filters": {in: made}},
	"envoy.config.listener.v3.Filter":      {"name": {in: anywhere, bound: texts(255)}, "typed_config": {in: anywhere, bound: packs(networkFilters...)}},
	tcpProxy: {
		"stat_prefix": {in: made, bound: texts(255)}, "cluster": {in: made, bound: target},
		"idle_timeout":                       {in: anywhere, bound: between(time.Second, 24*time.Hour)},
		"max_connect_attempts":               {in: anywhere, bound: sized(limits{1, 16})},
		"max_downstream_connection_duration": {in: made, bound: between(time.Second, 30*24*time.Hour)},
	},
	connectionLimit: {
		"stat_prefix": {in: anywhere, bound: texts(255)}, "max_connections": {in: anywhere, bound: sized(limits{1, 1 << 20})}, "delay": {in: anywhere, bound: between(0, time.Minute)},
	},
	connectionManager: {
		"stat_prefix": {in: made, bound: texts(255)}, "codec_type": {in: made}, "route_config": {in: made}, "http_filters": {in: made},
		"server_name":                  {in: anywhere, bound: texts(255)},
		"via":                          {in: anywhere, bound: texts(255)},
		"stream_idle_timeout":          {in: anywhere, bound: between(time.Second, 24*time.Hour)},
		"request_timeout":              {in: anywhere, bound: between(time.Second, 24*time.Hour)},
		"request_headers_timeout":      {in: anywhere, bound: between(time.Second, time.Hour)},
		"delayed_close_timeout":        {in: anywhere, bound: between(10*time.Millisecond, time.Minute)},
		"drain_timeout":                {in: anywhere, bound: between(time.Millisecond, time.Hour)},
		"max_request_headers_kb":       {in: anywhere, bound: sized(limits{1, 96})},
		"common_http_protocol_options": {in: anywhere}, "http2_protocol_options": {in: anywhere},
	},
	"envoy.config.core.v3.HttpProtocolOptions": {
		"idle_timeout":            {in: anywhere, bound: between(time.Second, 24*time.Hour)},
		"max_connection_duration": {in: made, bound: between(time.Second, 30*24*time.Hour)},
		"max_stream_duration":     {in: made, bound: between(time.Millisecond, 30*24*time.Hour)},
		"max_headers_count":       {in: anywhere, bound: sized(limits{1, 1000})},
	},
	"envoy.config.core.v3.Http2ProtocolOptions": {
		"max_concurrent_streams":         {in: anywhere, bound: sized(limits{1, 1 << 14})},
		"initial_stream_window_size":     {in: anywhere, bound: sized(limits{1<<16 - 1, 1 << 20})},
		"initial_connection_window_size": {in: anywhere, bound: sized(limits{1<<16 - 1, 1 << 24})},
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter": {
		"name": {in: anywhere, bound: texts(255)}, "typed_config": {in: anywhere, bound: packs(httpFilters...)},
	},
	router:  {"suppress_envoy_headers": {in: made}},
	buffer:  {"max_request_bytes": {in: anywhere, bound: sized(limits{1, 1 << 20})}},
	grpcWeb: {},
	localRateLimit: {
		"stat_prefix": {in: anywhere, bound: texts(255)}, "status": {in: anywhere}, "token_bucket": {in: anywhere},
		"filter_enabled": {in: anywhere}, "filter_enforced": {in: anywhere},
	},
	"envoy.type.v3.HttpStatus": {"code": {in: anywhere}},
	"envoy.type.v3.TokenBucket": {
		"max_tokens": {in: anywhere, bound: sized(limits{1, 1 << 30})}, "tokens_per_fill": {in: anywhere, bound: sized(limits{1, 1 << 30})}, "fill_interval": {in: anywhere, bound: between(50*time.Millisecond, 24*time.Hour)},
	},
	"envoy.config.core.v3.RuntimeFractionalPercent": {"default_value": {in: anywhere}},
	"envoy.type.v3.FractionalPercent":               {"numerator": {in: anywhere}, "denominator": {in: anywhere}},

	"envoy.config.route.v3.RouteConfiguration": {"name": {in: made, bound: texts(255)}, "virtual_hosts": {in: made}},
	"envoy.config.route.v3.VirtualHost": {
		"name": {in: made, bound: texts(255)}, "domains": {in: made, bound: domain}, "routes": {in: made, most: 64},
		"request_headers_to_add": {in: anywhere}, "request_headers_to_remove": {in: anywhere, bound: headerName},
		"response_headers_to_add": {in: anywhere}, "response_headers_to_remove": {in: anywhere, bound: headerName},
		"include_request_attempt_count": {in: anywhere},
	},
	"envoy.config.route.v3.Route": {
		"name": {in: made, bound: texts(255)}, "match": {in: made}, "route": {in: made}, "direct_response": {in: made}, "redirect": {in: made},
		"request_headers_to_add": {in: made}, "request_headers_to_remove": {in: made, bound: headerName},
		"response_headers_to_add": {in: made}, "response_headers_to_remove": {in: made, bound: headerName},
	},
	"envoy.config.route.v3.RouteMatch": {"prefix": {in: made, bound: texts(1024)}, "path": {in: made, bound: texts(1024)}, "path_separated_prefix": {in: made, bound: texts(1024)}},
	"envoy.config.route.v3.RouteAction": {
		"cluster": {in: made, bound: target}, "prefix_rewrite": {in: made, bound: texts(1024)}, "host_rewrite_literal": {in: made, bound: texts(255)},
		"timeout": {in: made, bound: between(0, 24*time.Hour)}, "idle_timeout": {in: made, bound: between(0, 24*time.Hour)},
	},
	"envoy.config.route.v3.DirectResponseAction": {"status": {in: made}, "body": {in: made}},
	"envoy.config.core.v3.DataSource":            {"inline_string": {in: made, bound: texts(4096)}},
	"envoy.config.route.v3.RedirectAction": {
		"https_redirect": {in: made}, "host_redirect": {in: made, bound: texts(255)}, "path_redirect": {in: made, bound: texts(1024)}, "response_code": {in: made},
	},
	"envoy.config.core.v3.HeaderValueOption": {"header": {in: anywhere}, "append_action": {in: anywhere}},
	"envoy.config.core.v3.HeaderValue":       {"key": {in: anywhere, bound: headerName}, "value": {in: anywhere, bound: headerValue}},
}

// These are the extensions that a template may use.
const (
	tcpProxy          = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"
	connectionManager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	connectionLimit   = "envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit"
	router            = "envoy.extensions.filters.http.router.v3.Router"
	buffer            = "envoy.extensions.filters.http.buffer.v3.Buffer"
	grpcWeb           = "envoy.extensions.filters.http.grpc_web.v3.GrpcWeb"
	localRateLimit    = "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"
)

// required are fields without which Envoy refuses a message, and whose rules in the proto do not
// say so.
var required = map[protoreflect.FullName][]protoreflect.Name{connectionLimit: {"max_connections"}}

var (
	networkFilters = []string{tcpProxy, connectionManager, connectionLimit}
	httpFilters    = []string{router, buffer, grpcWeb, localRateLimit}
	// clusterTypes are those whose endpoints are in the cluster. What an agent is given as fixed
	// addresses (STATIC) it takes for workloads of its machine.
	clusterTypes = []string{"STRICT_DNS", "LOGICAL_DNS"}
	// thresholds are numbers of what a cluster may have open at a time.
	thresholds = limits{0, 1 << 14}
	// buffers are sizes that Envoy can work with. 0 would be no limit.
	buffers = limits{4 << 10, 1 << 20}
)
