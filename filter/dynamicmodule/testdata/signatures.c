// Compiled by abi_test.go: our prototypes, spelt with Envoy's types, after
// Envoy's own. A difference is a conflicting declaration.
#include SDK_HEADER

#define MESHGATE_ABI_TYPES_H
#define T(name) envoy_dynamic_module_type_##name
typedef T(envoy_buffer) dm_envoy_buffer;
typedef T(module_buffer) dm_module_buffer;
typedef T(module_http_header) dm_module_header;
typedef T(envoy_http_header) dm_envoy_header;
typedef T(http_filter_config_envoy_ptr) dm_config_envoy;
typedef T(http_filter_config_module_ptr) dm_config_module;
typedef T(http_filter_per_route_config_module_ptr) dm_route_module;
typedef T(http_filter_envoy_ptr) dm_filter_envoy;
typedef T(http_filter_module_ptr) dm_filter_module;
typedef T(http_filter_scheduler_module_ptr) dm_scheduler;
typedef T(http_header_type) dm_header_type;
typedef T(http_body_type) dm_body_type;
typedef T(log_level) dm_log_level;
typedef T(metadata_source) dm_metadata_source;
typedef T(metrics_result) dm_metrics_result;
typedef T(attribute_id) dm_attribute;
typedef T(on_http_filter_request_headers_status) dm_request_headers_status;
typedef T(on_http_filter_request_body_status) dm_request_body_status;
typedef T(on_http_filter_request_trailers_status) dm_request_trailers_status;
typedef T(on_http_filter_response_headers_status) dm_response_headers_status;
typedef T(on_http_filter_response_body_status) dm_response_body_status;
typedef T(on_http_filter_response_trailers_status) dm_response_trailers_status;
typedef T(on_http_filter_local_reply_status) dm_local_reply_status;
typedef T(http_callout_result) dm_callout_result;
typedef T(http_stream_reset_reason) dm_stream_reset_reason;
#include "abi.h"
