// Headers, trailers and bodies of a stream, and what Envoy says about it.
#include "host.h"

static host_stream *alive(dm_filter_envoy f, const char *what) {
  host_stream *s = f;
  CHECK(!s->gone, "%s of a stream that is gone", what);
  return s;
}

static host_field *fields(host_stream *s, dm_header_type t) { return t == DM_REQUEST_HEADER ? s->headers : s->trailers; }

static host_field *find(host_field *all, dm_module_buffer key) {
  for (size_t i = 0; i < HEADERS; i++)
    if (all[i].used && strlen(all[i].name) == key.length && memcmp(all[i].name, key.ptr, key.length) == 0) return &all[i];
  return NULL;
}

bool DM_CALL(http_get_header)(dm_filter_envoy f, dm_header_type t, dm_module_buffer key, dm_envoy_buffer *out, size_t index,
                              size_t *count) {
  host_field *h = find(fields(alive(f, "header"), t), key);
  if (count != NULL) *count = h != NULL;
  *out = h != NULL ? (dm_envoy_buffer){h->value, strlen(h->value)} : (dm_envoy_buffer){NULL, 0};
  return h != NULL;
}

size_t DM_CALL(http_get_headers_size)(dm_filter_envoy f, dm_header_type t) {
  host_field *all = fields(alive(f, "headers"), t);
  size_t n = 0;
  for (size_t i = 0; i < HEADERS; i++) n += all[i].used;
  return n;
}

bool DM_CALL(http_get_headers)(dm_filter_envoy f, dm_header_type t, dm_envoy_header *out) {
  host_field *all = fields(alive(f, "headers"), t);
  for (size_t i = 0, n = 0; i < HEADERS; i++)
    if (all[i].used) out[n++] = (dm_envoy_header){all[i].name, strlen(all[i].name), all[i].value, strlen(all[i].value)};
  return true;
}

bool DM_CALL(http_set_header)(dm_filter_envoy f, dm_header_type t, dm_module_buffer key, dm_module_buffer value) {
  host_field *all = fields(alive(f, "change of a header"), t), *h = find(all, key);
  if (value.length == 0) {
    if (h != NULL) memset(h, 0, sizeof(*h));
    return true;
  }
  for (size_t i = 0; h == NULL && i < HEADERS; i++)
    if (!all[i].used) h = &all[i];
  CHECK(h != NULL && key.length < sizeof(h->name) && value.length < sizeof(h->value), "no room for a header");
  memset(h, 0, sizeof(*h));
  h->used = true;
  memcpy(h->name, key.ptr, key.length);
  memcpy(h->value, value.ptr, value.length);
  return true;
}

bool DM_CALL(http_add_header)(dm_filter_envoy f, dm_header_type t, dm_module_buffer key, dm_module_buffer value) {
  CHECK(find(fields(alive(f, "another header"), t), key) == NULL, "a header is there twice");
  return DM_CALL(http_set_header)(f, t, key, value);
}

static char *part(host_stream *s, dm_body_type t, size_t **n) {
  *n = t == DM_BUFFERED_REQUEST_BODY ? &s->nbuffered : &s->nreceived;
  return t == DM_BUFFERED_REQUEST_BODY ? s->buffered : s->received;
}

size_t DM_CALL(http_get_body_size)(dm_filter_envoy f, dm_body_type t) {
  size_t *n;
  part(alive(f, "size of the body"), t, &n);
  return *n;
}

size_t DM_CALL(http_get_body_chunks_size)(dm_filter_envoy f, dm_body_type t) {
  return DM_CALL(http_get_body_size)(f, t) > 0;
}

bool DM_CALL(http_get_body_chunks)(dm_filter_envoy f, dm_body_type t, dm_envoy_buffer *out) {
  size_t *n;
  char *p = part(alive(f, "body"), t, &n);
  if (*n > 0) *out = (dm_envoy_buffer){p, *n};
  return true;
}

bool DM_CALL(http_append_body)(dm_filter_envoy f, dm_body_type t, dm_module_buffer data) {
  size_t *n;
  char *p = part(alive(f, "change of the body"), t, &n);
  memcpy(p + *n, data.ptr, data.length);
  *n += data.length;
  return true;
}

bool DM_CALL(http_drain_body)(dm_filter_envoy f, dm_body_type t, size_t count) {
  size_t *n;
  part(alive(f, "change of the body"), t, &n);
  CHECK(count == *n, "drains a part");
  *n = 0;
  return true;
}

bool DM_CALL(http_received_buffered_request_body)(dm_filter_envoy f) {
  alive(f, "body");
  return false;
}

void DM_CALL(http_set_dynamic_metadata_string)(dm_filter_envoy f, dm_module_buffer ns, dm_module_buffer key,
                                               dm_module_buffer value) {
  host_stream *s = alive(f, "metadata");
  const struct {
    const char *name;
    char *to;
    size_t room;
  } keys[] = {{"decision", s->decision, sizeof(s->decision)}, {"reason", s->reason, sizeof(s->reason)},
              {"route", s->noted_route, sizeof(s->noted_route)}};
  CHECK(ns.length == 8 && key.length > 0, "metadata");
  for (size_t i = 0; i < 3; i++) {
    if (key.length != strlen(keys[i].name) || memcmp(key.ptr, keys[i].name, key.length) != 0) continue;
    CHECK(value.length < keys[i].room, "%s of %zu bytes", keys[i].name, value.length);
    memcpy(keys[i].to, value.ptr, value.length);
    keys[i].to[value.length] = 0;
  }
}

bool DM_CALL(http_set_filter_state_bytes)(dm_filter_envoy f, dm_module_buffer key, dm_module_buffer value) {
  CHECK(key.length == strlen(FRONT_STATE_OAUTH) && value.length == strlen(FRONT_STATE_HANDED_OVER), "filter state");
  return alive(f, "filter state")->handed_over = true;
}

bool DM_CALL(http_get_metadata_string)(dm_filter_envoy f, dm_metadata_source source, dm_module_buffer ns,
                                       dm_module_buffer key, dm_envoy_buffer *out) {
  host_stream *s = alive(f, "metadata");
  CHECK(source == DM_METADATA_ROUTE && !s->oauth_selected, "metadata of another route");
  if (key.length == 6 && s->mode.chain == HOST_NO_CHAIN) {
    *out = (dm_envoy_buffer){"none", 4};
    return true;
  }
  if (key.length == 6 && s->mode.chain != 0) {
    char *to = s->said;
    for (size_t i = 0; i < FRONT_CONTENT; i++) to += sprintf(to, "%02x", s->mode.chain);
    strcpy(to, HOST_CUT);
    *out = (dm_envoy_buffer){s->said, strlen(s->said)};
    return true;
  }
  if (key.length != 5) return false;
  *out = (dm_envoy_buffer){"route-1", 7};
  return true;
}

dm_metrics_result DM_CALL(http_filter_config_define_counter)(dm_config_envoy c, dm_module_buffer name,
                                                             dm_module_buffer *labels, size_t n, size_t *id) {
  // As Envoy numbers them: those without labels and those with apart, from 1.
  static const char *const names[] = {"allowed_total", "issued_total", "refused_total"};
  *id = 3;
  for (size_t i = 0; i < 3; i++)
    if (strlen(names[i]) == name.length && memcmp(names[i], name.ptr, name.length) == 0) *id = i;
  return DM_METRICS_SUCCESS;
}

dm_metrics_result DM_CALL(http_filter_config_define_gauge)(dm_config_envoy c, dm_module_buffer name,
                                                           dm_module_buffer *labels, size_t n, size_t *id) {
  *id = 3;
  return DM_METRICS_SUCCESS;
}

dm_metrics_result DM_CALL(http_filter_set_gauge)(dm_filter_envoy f, size_t id, dm_module_buffer *values, size_t n,
                                                 uint64_t value) {
  alive(f, "gauge");
  CHECK(id == 3 && n == 0, "gauge %zu", id);
  return DM_METRICS_SUCCESS;
}

dm_metrics_result DM_CALL(http_filter_increment_counter)(dm_filter_envoy f, size_t id, dm_module_buffer *values, size_t n,
                                                         uint64_t by) {
  host_stream *s = alive(f, "counter");
  if (id >= 3) return DM_METRICS_SUCCESS;  // a figure of the caches
  CHECK(by == 1 && n == (id == 2), "counter %zu with %zu labels", id, n);
  unsigned *counters[] = {&s->allowed, &s->issued, &s->refused};
  ++*counters[id];
  return DM_METRICS_SUCCESS;
}

void DM_CALL(http_clear_route_cache)(dm_filter_envoy f) {
  host_stream *s = alive(f, "route");
  dm_module_buffer name = {"x-meshgate-oauth", 16};
  CHECK(find(s->headers, name) != NULL, "a hand-over without its plugin");
  s->oauth_selected = s->mode.oauth_route && s->handed_over;
}

bool DM_CALL(http_get_cluster_name)(dm_filter_envoy f, dm_envoy_buffer *out) {
  host_stream *s = alive(f, "cluster");
  if (s->nowhere) return false;
  const char *name = s->oauth_selected ? "oauth2" : "upstream";
  *out = (dm_envoy_buffer){name, strlen(name)};
  return true;
}

bool DM_CALL(http_filter_get_attribute_string)(dm_filter_envoy f, dm_attribute id, dm_envoy_buffer *out) {
  host_stream *s = alive(f, "attribute");
  if (id == DM_CONNECTION_TLS_VERSION) return false;
  dm_envoy_buffer protocol = s->mode.http2 ? (dm_envoy_buffer){"HTTP/2", 6} : (dm_envoy_buffer){"HTTP/1.1", 8};
  *out = id == DM_SOURCE_ADDRESS ? (dm_envoy_buffer){"192.0.2.1", 9} : protocol;
  return true;
}

bool DM_CALL(http_filter_get_attribute_int)(dm_filter_envoy f, dm_attribute id, uint64_t *out) {
  CHECK(id == DM_CONNECTION_ID, "attribute %d", id);
  *out = (uint64_t)(size_t)alive(f, "attribute")->worker >> 4;
  return true;
}

uint64_t DM_CALL(http_get_buffer_limit)(dm_filter_envoy f) {
  alive(f, "limit");
  return 32768;
}

void DM_CALL(http_set_buffer_limit)(dm_filter_envoy f, uint64_t limit) {
  alive(f, "limit");
  CHECK(limit > FRONT_BODY, "limit %llu", (unsigned long long)limit);
}

dm_route_module DM_CALL(get_most_specific_route_config)(dm_filter_envoy f) { return alive(f, "route")->route; }

void DM_CALL(log)(dm_log_level level, dm_module_buffer message) {}
bool DM_CALL(log_enabled)(dm_log_level level) { return false; }
uint32_t DM_CALL(get_concurrency)(void) { return 2; }
