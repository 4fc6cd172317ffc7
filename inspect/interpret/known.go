package interpret

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Unsaid is the error for configuration that this package does not understand.
type Unsaid struct{ What string }

// Error implements error.
func (u *Unsaid) Error() string { return "cannot say: " + u.What }

func unsaid(format string, args ...any) error { return &Unsaid{fmt.Sprintf(format, args...)} }

// understood returns an Unsaid if a message has a field that is not among the known ones of its
// type. A message of a type without known fields is not understood at all. Fields of the message
// are not looked into.
func understood(m proto.Message) error {
	r := m.ProtoReflect()
	known, ok := fields[r.Descriptor().FullName()]
	if !ok {
		return unsaid("%s is not known", r.Descriptor().FullName())
	}
	var unknown protoreflect.FieldDescriptor
	r.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !slices.Contains(known, fd.Name()) {
			unknown = fd
		}
		return unknown == nil
	})
	switch {
	case unknown != nil:
		return unsaid("%s of %s is not known", unknown.Name(), r.Descriptor().FullName())
	case len(r.GetUnknown()) > 0:
		return unsaid("%s has fields of another version", r.Descriptor().FullName())
	}
	return nil
}

// unpack decodes a packed message and requires that it is understood.
func unpack[M proto.Message](a *anypb.Any, into M) (M, error) {
	if err := a.UnmarshalTo(into); err != nil {
		return into, unsaid("%s is not a %s", a.GetTypeUrl(), into.ProtoReflect().Descriptor().FullName())
	}
	return into, understood(into)
}

type names = []protoreflect.Name

// fields are the fields that are understood, by the type of the message. Those on the lines
// marked "same" make no difference to which answer a request gets: limits on time and on
// connections, statistics, logs and traces.
var fields = map[protoreflect.FullName]names{
	"envoy.config.listener.v3.Listener": {
		"name", "address", "filter_chains", "listener_filters", "use_original_dst", "bind_to_port",
		// same
		"traffic_direction", "metadata", "enable_reuse_port", "listener_filters_timeout", "continue_on_listener_filters_timeout",
		"max_connections_to_accept_per_socket_event", "per_connection_buffer_limit_bytes", "stat_prefix", "tcp_backlog_size",
		"ignore_global_conn_limit", "access_log",
	},
	"envoy.config.listener.v3.FilterChain": {
		"filter_chain_match", "filters", "transport_socket",
		// same
		"name", "metadata", "transport_socket_connect_timeout",
	},
	"envoy.config.listener.v3.FilterChainMatch": {
		"destination_port", "prefix_ranges", "transport_protocol", "application_protocols", "server_names", "direct_source_prefix_ranges",
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager": {
		"rds", "http_filters", "forward_client_cert_details", "set_current_client_cert_details", "early_header_mutation_extensions",
		"normalize_path", "merge_slashes", "path_with_escaped_slashes_action", "strip_any_host_port",
		// same
		"stat_prefix", "codec_type", "access_log", "common_http_protocol_options", "http_protocol_options", "http2_protocol_options",
		"stream_idle_timeout", "server_header_transformation", "local_reply_config", "upgrade_configs", "tracing",
		"request_headers_timeout", "request_timeout", "drain_timeout", "use_remote_address", "xff_num_trusted_hops",
		"generate_request_id", "preserve_external_request_id", "via", "stream_error_on_invalid_http_message", "access_log_options",
		"skip_xff_append", "server_name", "max_request_headers_kb", "scheme_header_transformation", "append_x_forwarded_port",
		"delayed_close_timeout", "internal_address_config", "original_ip_detection_extensions", "always_set_request_id_in_response",
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter": {"name", "typed_config", "disabled"},
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy": {
		"cluster", "weighted_clusters",
		// same
		"stat_prefix", "idle_timeout", "access_log", "max_downstream_connection_duration", "max_connect_attempts",
		"upstream_connect_mode", "max_early_data_bytes", "access_log_options",
	},
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight": {"name", "weight"},
	"envoy.config.route.v3.RouteConfiguration": {
		"virtual_hosts", "request_headers_to_add", "request_headers_to_remove", "validate_clusters", "ignore_port_in_host_matching",
		"typed_per_filter_config",
		// same
		"name", "response_headers_to_add", "response_headers_to_remove", "metadata",
	},
	"envoy.config.route.v3.VirtualHost": {
		"domains", "routes", "matcher", "typed_per_filter_config", "retry_policy",
		// same
		"name", "response_headers_to_add", "response_headers_to_remove", "metadata",
	},
	"envoy.config.route.v3.Route": {
		"match", "route", "direct_response", "redirect", "typed_per_filter_config", "request_headers_to_add", "request_headers_to_remove",
		// same
		"name", "metadata", "response_headers_to_add", "response_headers_to_remove", "stat_prefix", "decorator", "tracing",
		"request_body_buffer_limit",
	},
	"envoy.config.route.v3.RouteMatch": {"prefix", "path", "safe_regex", "path_separated_prefix", "headers", "case_sensitive", "filter_state"},
	"envoy.config.route.v3.HeaderMatcher": {
		"name", "string_match", "present_match", "invert_match", "treat_missing_header_as_empty",
	},
	"envoy.type.matcher.v3.StringMatcher": {"exact", "prefix", "suffix", "contains", "safe_regex", "ignore_case"},
	"envoy.type.matcher.v3.RegexMatcher":  {"regex", "google_re2"},
	"envoy.config.route.v3.RouteAction": {
		"cluster", "weighted_clusters", "prefix_rewrite", "regex_rewrite", "host_rewrite_literal", "host_rewrite_path_regex",
		"auto_host_rewrite", "append_x_forwarded_host", "retry_policy", "cluster_not_found_response_code",
		// same
		"timeout", "idle_timeout", "max_stream_duration", "upgrade_configs", "flush_timeout", "hash_policy",
	},
	"envoy.config.route.v3.WeightedCluster": {"clusters"},
	"envoy.config.route.v3.WeightedCluster.ClusterWeight": {
		"name", "weight", "host_rewrite_literal",
		// same
		"response_headers_to_add", "response_headers_to_remove",
	},
	"envoy.config.route.v3.RetryPolicy": {
		"retry_on", "num_retries", "retriable_status_codes", "retriable_request_headers", "per_try_timeout", "retry_back_off",
		"retry_host_predicate", "host_selection_retry_max_attempts", "per_try_idle_timeout",
	},
	"envoy.config.route.v3.DirectResponseAction": {"status", "body", "body_format"},
	"envoy.config.cluster.v3.Cluster": {
		"name", "type", "load_assignment", "eds_cluster_config", "transport_socket", "transport_socket_matches", "lb_policy",
		"upstream_bind_config",
		// same
		"alt_stat_name", "connect_timeout", "typed_extension_protocol_options", "ignore_health_on_host_removal", "common_lb_config",
		"circuit_breakers", "outlier_detection", "health_checks", "round_robin_lb_config", "least_request_lb_config",
		"ring_hash_lb_config", "maglev_lb_config", "metadata", "dns_lookup_family", "dns_refresh_rate", "respect_dns_ttl",
		"dns_failure_refresh_rate", "typed_dns_resolver_config", "upstream_connection_options", "per_connection_buffer_limit_bytes",
		"close_connections_on_host_health_failure", "track_cluster_stats", "dns_jitter",
	},
	"envoy.config.endpoint.v3.ClusterLoadAssignment": {"cluster_name", "endpoints"},
	"envoy.config.endpoint.v3.LocalityLbEndpoints": {
		"lb_endpoints", "priority",
		// same, because no cluster weighs localities
		"locality", "load_balancing_weight",
	},
	"envoy.config.endpoint.v3.LbEndpoint": {"endpoint", "load_balancing_weight", "metadata", "health_status"},
	"envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext": {
		"common_tls_context", "sni", "auto_host_sni", "auto_sni_san_validation", "max_session_keys", "enforce_rsa_key_usage",
	},
	"envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext": {
		"common_tls_context", "require_client_certificate", "disable_stateless_session_resumption", "disable_stateful_session_resumption",
	},
	"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext": {
		"tls_certificate_sds_secret_configs", "combined_validation_context", "validation_context", "alpn_protocols", "tls_params",
		"validation_context_sds_secret_config",
	},
	"envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext": {"match_typed_subject_alt_names", "trusted_ca", "system_root_certs"},
	"envoy.extensions.filters.http.rbac.v3.RBACPerRoute":                     {"rbac"},
	"envoy.extensions.filters.http.rbac.v3.RBAC":                             {"rules", "shadow_rules"},
	"envoy.extensions.filters.network.rbac.v3.RBAC":                          {"rules", "shadow_rules", "stat_prefix"},
	"envoy.config.rbac.v3.RBAC":                                              {"action", "policies"},
	"envoy.config.rbac.v3.Policy":                                            {"permissions", "principals"},
	"envoy.config.rbac.v3.Permission":                                        {"any"},
	"envoy.config.rbac.v3.Principal":                                         {"any", "authenticated", "and_ids", "or_ids", "not_id"},
	"envoy.config.rbac.v3.Principal.Authenticated":                           {"principal_name"},
	"envoy.extensions.filters.http.fault.v3.HTTPFault":                       {"delay", "abort", "headers", "response_rate_limit", "disable_downstream_cluster_stats"},
	"envoy.extensions.filters.http.fault.v3.FaultAbort":                      {"http_status", "percentage"},
	"envoy.extensions.filters.common.fault.v3.FaultDelay":                    {"fixed_delay", "percentage"},
	"envoy.extensions.filters.common.fault.v3.FaultRateLimit":                {"fixed_limit", "percentage"},
	"envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit": {
		"stat_prefix", "token_bucket", "filter_enabled", "filter_enforced", "status", "response_headers_to_add",
		"rate_limited_as_resource_exhausted", // the code of gRPC alone, beside the status
	},
	"envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter": {
		"dynamic_module_config", "filter_name", "filter_config",
	},
	"envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute": {
		"dynamic_module_config", "filter_name", "filter_config", "per_route_config_name",
	},
}
