// Hooks that have nothing to do. Envoy refuses a module that lacks one of the
// required ones, and a C function that returns at once costs no entry into Go.

#include "abi.h"

dm_response_headers_status DM_ON(response_headers)(dm_filter_envoy f, dm_filter_module m, bool end) {
  return DM_RESPONSE_HEADERS_CONTINUE;
}

dm_response_body_status DM_ON(response_body)(dm_filter_envoy f, dm_filter_module m, bool end) {
  return DM_RESPONSE_BODY_CONTINUE;
}

dm_response_trailers_status DM_ON(response_trailers)(dm_filter_envoy f, dm_filter_module m) {
  return DM_RESPONSE_TRAILERS_CONTINUE;
}

void DM_ON(stream_complete)(dm_filter_envoy f, dm_filter_module m) {}
void DM_ON(downstream_above_write_buffer_high_watermark)(dm_filter_envoy f, dm_filter_module m) {}
void DM_ON(downstream_below_write_buffer_low_watermark)(dm_filter_envoy f, dm_filter_module m) {}

// Callouts and streams of Envoy's own HTTP client are never started here.

void DM_ON(http_callout_done)(dm_filter_envoy f, dm_filter_module m, uint64_t id, dm_callout_result r,
                              dm_envoy_header *h, size_t hn, dm_envoy_buffer *b, size_t bn) {}
void DM_ON(http_stream_headers)(dm_filter_envoy f, dm_filter_module m, uint64_t id, dm_envoy_header *h, size_t hn,
                                bool end) {}
void DM_ON(http_stream_data)(dm_filter_envoy f, dm_filter_module m, uint64_t id, const dm_envoy_buffer *b, size_t bn,
                             bool end) {}
void DM_ON(http_stream_trailers)(dm_filter_envoy f, dm_filter_module m, uint64_t id, dm_envoy_header *h, size_t hn) {}
void DM_ON(http_stream_complete)(dm_filter_envoy f, dm_filter_module m, uint64_t id) {}
void DM_ON(http_stream_reset)(dm_filter_envoy f, dm_filter_module m, uint64_t id, dm_stream_reset_reason r) {}

void DM_ON(config_scheduled)(dm_config_envoy c, dm_config_module m, uint64_t event) {}
void DM_ON(config_http_callout_done)(dm_config_envoy c, dm_config_module m, uint64_t id, dm_callout_result r,
                                     dm_envoy_header *h, size_t hn, dm_envoy_buffer *b, size_t bn) {}
void DM_ON(config_http_stream_headers)(dm_config_envoy c, dm_config_module m, uint64_t id, dm_envoy_header *h,
                                       size_t hn, bool end) {}
void DM_ON(config_http_stream_data)(dm_config_envoy c, dm_config_module m, uint64_t id, const dm_envoy_buffer *b,
                                    size_t bn, bool end) {}
void DM_ON(config_http_stream_trailers)(dm_config_envoy c, dm_config_module m, uint64_t id, dm_envoy_header *h,
                                        size_t hn) {}
void DM_ON(config_http_stream_complete)(dm_config_envoy c, dm_config_module m, uint64_t id) {}
void DM_ON(config_http_stream_reset)(dm_config_envoy c, dm_config_module m, uint64_t id, dm_stream_reset_reason r) {}
