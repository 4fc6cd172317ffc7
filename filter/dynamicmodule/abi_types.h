// The part of Envoy's dynamic module ABI that this module uses: types and
// values. Declared here and not included from Envoy's SDK, so that a build needs
// nothing but this directory; abi_test.go compiles these declarations against
// the SDK's header and fails on any difference of layout or value.
// Source: envoy/source/extensions/dynamic_modules/abi/abi.h, version v0.1.0.
#ifndef MESHGATE_ABI_TYPES_H
#define MESHGATE_ABI_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version that program_init reports. Envoy 1.38 to 1.39 take it as matched,
// 1.40 warns.
#define DM_ABI_VERSION "v0.1.0"

// Memory of Envoy, valid during the hook that received it.
typedef struct dm_envoy_buffer {
  const char *ptr;
  size_t length;
} dm_envoy_buffer;

// Memory of this module, copied by the callee.
typedef struct dm_module_buffer {
  const char *ptr;
  size_t length;
} dm_module_buffer;

typedef struct dm_module_header {
  const char *key_ptr;
  size_t key_length;
  const char *value_ptr;
  size_t value_length;
} dm_module_header;

typedef struct dm_envoy_header {
  const char *key_ptr;
  size_t key_length;
  const char *value_ptr;
  size_t value_length;
} dm_envoy_header;

typedef void *dm_config_envoy;
typedef const void *dm_config_module;
typedef const void *dm_route_module;
typedef void *dm_filter_envoy;
typedef const void *dm_filter_module;
typedef void *dm_scheduler;

typedef enum { DM_REQUEST_HEADER = 0, DM_REQUEST_TRAILER = 1 } dm_header_type;

typedef enum {
  DM_LOG_TRACE = 0,
  DM_LOG_DEBUG = 1,
  DM_LOG_INFO = 2,
  DM_LOG_WARN = 3,
  DM_LOG_ERROR = 4,
  DM_LOG_CRITICAL = 5
} dm_log_level;

typedef enum { DM_RECEIVED_REQUEST_BODY = 0, DM_BUFFERED_REQUEST_BODY = 1 } dm_body_type;

typedef enum { DM_METADATA_DYNAMIC = 0, DM_METADATA_ROUTE = 1 } dm_metadata_source;

typedef enum { DM_METRICS_SUCCESS = 0 } dm_metrics_result;

typedef enum {
  DM_REQUEST_PROTOCOL = 10,
  DM_SOURCE_ADDRESS = 24,
  DM_CONNECTION_ID = 28,
  DM_CONNECTION_TLS_VERSION = 31
} dm_attribute;

typedef enum {
  DM_REQUEST_HEADERS_CONTINUE = 0,
  DM_REQUEST_HEADERS_STOP = 1,
  DM_REQUEST_HEADERS_WATERMARK = 4
} dm_request_headers_status;
typedef enum {
  DM_REQUEST_BODY_CONTINUE = 0,
  DM_REQUEST_BODY_BUFFER = 1,
  DM_REQUEST_BODY_WATERMARK = 2,
  DM_REQUEST_BODY_NO_BUFFER = 3
} dm_request_body_status;
typedef enum { DM_REQUEST_TRAILERS_CONTINUE = 0, DM_REQUEST_TRAILERS_STOP = 1 } dm_request_trailers_status;
typedef enum { DM_RESPONSE_HEADERS_CONTINUE = 0 } dm_response_headers_status;
typedef enum { DM_RESPONSE_BODY_CONTINUE = 0 } dm_response_body_status;
typedef enum { DM_RESPONSE_TRAILERS_CONTINUE = 0 } dm_response_trailers_status;
typedef enum { DM_LOCAL_REPLY_CONTINUE = 0 } dm_local_reply_status;

// Only ever received, never looked at.
typedef enum { DM_CALLOUT_SUCCESS = 0 } dm_callout_result;
typedef enum { DM_STREAM_RESET_CONNECTION_FAILURE = 0 } dm_stream_reset_reason;

#endif
