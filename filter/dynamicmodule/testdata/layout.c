// Compiled by abi_test.go: our types beside Envoy's.
#include <string.h>

#include SDK_HEADER
#include "abi_types.h"

#define T(name) envoy_dynamic_module_type_##name
#define SAME_SIZE(ours, theirs) \
  _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs), #ours)
#define SAME_FIELD(ours, theirs, field)                                                          \
  _Static_assert(offsetof(ours, field) == offsetof(theirs, field) &&                             \
                     __builtin_types_compatible_p(__typeof__(((ours *)0)->field), __typeof__(((theirs *)0)->field)), \
                 #ours "." #field)
#define SAME_TYPE(ours, theirs) _Static_assert(__builtin_types_compatible_p(ours, theirs), #ours)
#define SAME_VALUE(ours, theirs) \
  _Static_assert((int)(ours) == (int)(theirs) && sizeof(ours) == sizeof(theirs), #ours)

SAME_SIZE(dm_envoy_buffer, T(envoy_buffer));
SAME_FIELD(dm_envoy_buffer, T(envoy_buffer), ptr);
SAME_FIELD(dm_envoy_buffer, T(envoy_buffer), length);
SAME_SIZE(dm_module_buffer, T(module_buffer));
SAME_FIELD(dm_module_buffer, T(module_buffer), ptr);
SAME_FIELD(dm_module_buffer, T(module_buffer), length);
SAME_SIZE(dm_module_header, T(module_http_header));
SAME_FIELD(dm_module_header, T(module_http_header), key_ptr);
SAME_FIELD(dm_module_header, T(module_http_header), key_length);
SAME_FIELD(dm_module_header, T(module_http_header), value_ptr);
SAME_FIELD(dm_module_header, T(module_http_header), value_length);
SAME_SIZE(dm_envoy_header, T(envoy_http_header));
SAME_FIELD(dm_envoy_header, T(envoy_http_header), key_ptr);
SAME_FIELD(dm_envoy_header, T(envoy_http_header), key_length);
SAME_FIELD(dm_envoy_header, T(envoy_http_header), value_ptr);
SAME_FIELD(dm_envoy_header, T(envoy_http_header), value_length);

SAME_TYPE(dm_config_envoy, T(http_filter_config_envoy_ptr));
SAME_TYPE(dm_config_module, T(http_filter_config_module_ptr));
SAME_TYPE(dm_route_module, T(http_filter_per_route_config_module_ptr));
SAME_TYPE(dm_filter_envoy, T(http_filter_envoy_ptr));
SAME_TYPE(dm_filter_module, T(http_filter_module_ptr));
SAME_TYPE(dm_scheduler, T(http_filter_scheduler_module_ptr));

SAME_VALUE(DM_REQUEST_HEADER, T(http_header_type_RequestHeader));
SAME_VALUE(DM_REQUEST_TRAILER, T(http_header_type_RequestTrailer));
SAME_VALUE(DM_LOG_TRACE, T(log_level_Trace));
SAME_VALUE(DM_LOG_DEBUG, T(log_level_Debug));
SAME_VALUE(DM_LOG_INFO, T(log_level_Info));
SAME_VALUE(DM_LOG_WARN, T(log_level_Warn));
SAME_VALUE(DM_LOG_ERROR, T(log_level_Error));
SAME_VALUE(DM_LOG_CRITICAL, T(log_level_Critical));
SAME_VALUE(DM_RECEIVED_REQUEST_BODY, T(http_body_type_ReceivedRequestBody));
SAME_VALUE(DM_BUFFERED_REQUEST_BODY, T(http_body_type_BufferedRequestBody));
SAME_VALUE(DM_METADATA_DYNAMIC, T(metadata_source_Dynamic));
SAME_VALUE(DM_METADATA_ROUTE, T(metadata_source_Route));
SAME_VALUE(DM_METRICS_SUCCESS, T(metrics_result_Success));
SAME_VALUE(DM_REQUEST_PROTOCOL, T(attribute_id_RequestProtocol));
SAME_VALUE(DM_SOURCE_ADDRESS, T(attribute_id_SourceAddress));
SAME_VALUE(DM_CONNECTION_ID, T(attribute_id_ConnectionId));
SAME_VALUE(DM_CONNECTION_TLS_VERSION, T(attribute_id_ConnectionTlsVersion));
SAME_VALUE(DM_REQUEST_HEADERS_CONTINUE, T(on_http_filter_request_headers_status_Continue));
SAME_VALUE(DM_REQUEST_HEADERS_STOP, T(on_http_filter_request_headers_status_StopIteration));
SAME_VALUE(DM_REQUEST_HEADERS_WATERMARK, T(on_http_filter_request_headers_status_StopAllIterationAndWatermark));
SAME_VALUE(DM_REQUEST_BODY_CONTINUE, T(on_http_filter_request_body_status_Continue));
SAME_VALUE(DM_REQUEST_BODY_BUFFER, T(on_http_filter_request_body_status_StopIterationAndBuffer));
SAME_VALUE(DM_REQUEST_BODY_WATERMARK, T(on_http_filter_request_body_status_StopIterationAndWatermark));
SAME_VALUE(DM_REQUEST_BODY_NO_BUFFER, T(on_http_filter_request_body_status_StopIterationNoBuffer));
SAME_VALUE(DM_REQUEST_TRAILERS_STOP, T(on_http_filter_request_trailers_status_StopIteration));
SAME_VALUE(DM_REQUEST_TRAILERS_CONTINUE, T(on_http_filter_request_trailers_status_Continue));
SAME_VALUE(DM_RESPONSE_HEADERS_CONTINUE, T(on_http_filter_response_headers_status_Continue));
SAME_VALUE(DM_RESPONSE_BODY_CONTINUE, T(on_http_filter_response_body_status_Continue));
SAME_VALUE(DM_RESPONSE_TRAILERS_CONTINUE, T(on_http_filter_response_trailers_status_Continue));
SAME_VALUE(DM_LOCAL_REPLY_CONTINUE, T(on_http_filter_local_reply_status_Continue));
SAME_VALUE(DM_CALLOUT_SUCCESS, T(http_callout_result_Success));
SAME_VALUE(DM_STREAM_RESET_CONNECTION_FAILURE, T(http_stream_reset_reason_ConnectionFailure));

_Static_assert(__builtin_strcmp(DM_ABI_VERSION, ENVOY_DYNAMIC_MODULES_ABI_VERSION) == 0, "version");
