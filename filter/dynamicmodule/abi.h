// The functions of Envoy's dynamic module ABI that this module exports (hooks)
// and imports (callbacks). See abi_types.h for where this comes from and how it
// is held to Envoy's own header.
#ifndef MESHGATE_ABI_H
#define MESHGATE_ABI_H

#include "abi_types.h"

#define DM_ON(name) envoy_dynamic_module_on_http_filter_##name
#define DM_CALL(name) envoy_dynamic_module_callback_##name

// ---- callbacks ----

void DM_CALL(log)(dm_log_level level, dm_module_buffer message);
bool DM_CALL(log_enabled)(dm_log_level level);
uint32_t DM_CALL(get_concurrency)(void);

bool DM_CALL(http_get_header)(dm_filter_envoy f, dm_header_type t, dm_module_buffer key, dm_envoy_buffer *out,
                              size_t index, size_t *count);
size_t DM_CALL(http_get_headers_size)(dm_filter_envoy f, dm_header_type t);
bool DM_CALL(http_get_headers)(dm_filter_envoy f, dm_header_type t, dm_envoy_header *out);
bool DM_CALL(http_set_header)(dm_filter_envoy f, dm_header_type t, dm_module_buffer key, dm_module_buffer value);
bool DM_CALL(http_add_header)(dm_filter_envoy f, dm_header_type t, dm_module_buffer key, dm_module_buffer value);
size_t DM_CALL(http_get_body_size)(dm_filter_envoy f, dm_body_type t);
size_t DM_CALL(http_get_body_chunks_size)(dm_filter_envoy f, dm_body_type t);
bool DM_CALL(http_get_body_chunks)(dm_filter_envoy f, dm_body_type t, dm_envoy_buffer *out);
bool DM_CALL(http_append_body)(dm_filter_envoy f, dm_body_type t, dm_module_buffer data);
bool DM_CALL(http_drain_body)(dm_filter_envoy f, dm_body_type t, size_t n);
bool DM_CALL(http_received_buffered_request_body)(dm_filter_envoy f);
void DM_CALL(http_send_response)(dm_filter_envoy f, uint32_t status, dm_module_header *headers, size_t n,
                                 dm_module_buffer body, dm_module_buffer details);
void DM_CALL(http_clear_route_cache)(dm_filter_envoy f);
bool DM_CALL(http_get_cluster_name)(dm_filter_envoy f, dm_envoy_buffer *out);
bool DM_CALL(http_filter_get_attribute_int)(dm_filter_envoy f, dm_attribute id, uint64_t *out);
uint64_t DM_CALL(http_get_buffer_limit)(dm_filter_envoy f);
void DM_CALL(http_set_buffer_limit)(dm_filter_envoy f, uint64_t limit);
bool DM_CALL(http_filter_get_attribute_string)(dm_filter_envoy f, dm_attribute id, dm_envoy_buffer *out);
void DM_CALL(http_filter_continue_decoding)(dm_filter_envoy f);
void DM_CALL(http_set_dynamic_metadata_string)(dm_filter_envoy f, dm_module_buffer ns, dm_module_buffer key,
                                               dm_module_buffer value);
bool DM_CALL(http_set_filter_state_bytes)(dm_filter_envoy f, dm_module_buffer key, dm_module_buffer value);
bool DM_CALL(http_get_metadata_string)(dm_filter_envoy f, dm_metadata_source source, dm_module_buffer ns,
                                       dm_module_buffer key, dm_envoy_buffer *out);
dm_metrics_result DM_CALL(http_filter_config_define_counter)(dm_config_envoy c, dm_module_buffer name,
                                                             dm_module_buffer *labels, size_t n, size_t *id);
dm_metrics_result DM_CALL(http_filter_config_define_gauge)(dm_config_envoy c, dm_module_buffer name,
                                                           dm_module_buffer *labels, size_t n, size_t *id);
dm_metrics_result DM_CALL(http_filter_set_gauge)(dm_filter_envoy f, size_t id, dm_module_buffer *values, size_t n,
                                                 uint64_t value);
dm_metrics_result DM_CALL(http_filter_increment_counter)(dm_filter_envoy f, size_t id, dm_module_buffer *values, size_t n,
                                                         uint64_t by);
dm_route_module DM_CALL(get_most_specific_route_config)(dm_filter_envoy f);

dm_scheduler DM_CALL(http_filter_scheduler_new)(dm_filter_envoy f);
void DM_CALL(http_filter_scheduler_commit)(dm_scheduler s, uint64_t event);
void DM_CALL(http_filter_scheduler_delete)(dm_scheduler s);

// ---- hooks ----

const char *envoy_dynamic_module_on_program_init(void);

dm_config_module DM_ON(config_new)(dm_config_envoy c, dm_envoy_buffer name, dm_envoy_buffer config);
void DM_ON(config_destroy)(dm_config_module m);
dm_route_module DM_ON(per_route_config_new)(dm_envoy_buffer name, dm_envoy_buffer config);
void DM_ON(per_route_config_destroy)(dm_route_module m);

dm_filter_module DM_ON(new)(dm_config_module m, dm_filter_envoy f);
void DM_ON(destroy)(dm_filter_module m);
dm_request_headers_status DM_ON(request_headers)(dm_filter_envoy f, dm_filter_module m, bool end);
dm_request_body_status DM_ON(request_body)(dm_filter_envoy f, dm_filter_module m, bool end);
dm_request_trailers_status DM_ON(request_trailers)(dm_filter_envoy f, dm_filter_module m);
dm_response_headers_status DM_ON(response_headers)(dm_filter_envoy f, dm_filter_module m, bool end);
dm_response_body_status DM_ON(response_body)(dm_filter_envoy f, dm_filter_module m, bool end);
dm_response_trailers_status DM_ON(response_trailers)(dm_filter_envoy f, dm_filter_module m);
void DM_ON(stream_complete)(dm_filter_envoy f, dm_filter_module m);
void DM_ON(scheduled)(dm_filter_envoy f, dm_filter_module m, uint64_t event);
dm_local_reply_status DM_ON(local_reply)(dm_filter_envoy f, dm_filter_module m, uint32_t code, dm_envoy_buffer details,
                                         bool reset);
void DM_ON(downstream_above_write_buffer_high_watermark)(dm_filter_envoy f, dm_filter_module m);
void DM_ON(downstream_below_write_buffer_low_watermark)(dm_filter_envoy f, dm_filter_module m);

void DM_ON(http_callout_done)(dm_filter_envoy f, dm_filter_module m, uint64_t id, dm_callout_result r,
                              dm_envoy_header *h, size_t hn, dm_envoy_buffer *b, size_t bn);
void DM_ON(http_stream_headers)(dm_filter_envoy f, dm_filter_module m, uint64_t id, dm_envoy_header *h, size_t hn,
                                bool end);
void DM_ON(http_stream_data)(dm_filter_envoy f, dm_filter_module m, uint64_t id, const dm_envoy_buffer *b, size_t bn,
                             bool end);
void DM_ON(http_stream_trailers)(dm_filter_envoy f, dm_filter_module m, uint64_t id, dm_envoy_header *h, size_t hn);
void DM_ON(http_stream_complete)(dm_filter_envoy f, dm_filter_module m, uint64_t id);
void DM_ON(http_stream_reset)(dm_filter_envoy f, dm_filter_module m, uint64_t id, dm_stream_reset_reason r);

void DM_ON(config_scheduled)(dm_config_envoy c, dm_config_module m, uint64_t event);
void DM_ON(config_http_callout_done)(dm_config_envoy c, dm_config_module m, uint64_t id, dm_callout_result r,
                                     dm_envoy_header *h, size_t hn, dm_envoy_buffer *b, size_t bn);
void DM_ON(config_http_stream_headers)(dm_config_envoy c, dm_config_module m, uint64_t id, dm_envoy_header *h,
                                       size_t hn, bool end);
void DM_ON(config_http_stream_data)(dm_config_envoy c, dm_config_module m, uint64_t id, const dm_envoy_buffer *b,
                                    size_t bn, bool end);
void DM_ON(config_http_stream_trailers)(dm_config_envoy c, dm_config_module m, uint64_t id, dm_envoy_header *h,
                                        size_t hn);
void DM_ON(config_http_stream_complete)(dm_config_envoy c, dm_config_module m, uint64_t id);
void DM_ON(config_http_stream_reset)(dm_config_envoy c, dm_config_module m, uint64_t id, dm_stream_reset_reason r);

#endif
