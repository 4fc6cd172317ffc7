// The hooks of a request: decide, or start a look-up and decide when it is back.

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lookup.h"

static const dm_module_buffer path_name = {":path", 5};

// Go's runtime watches threads that call into it. One that calls often, but never
// passes through Go's scheduler, looks to it like a goroutine that has run for too
// long: after 10 ms its watcher takes the thread's processor away every 20
// microseconds, which costs more than all decisions together. So a busy worker
// lets the scheduler see it now and then: never more often than every 4 ms, and
// not at all while it is quiet, when there is nothing to gain.
#define BREATHE_AFTER 32            // decisions
#define BREATHE_EVERY 4000000LL     // ns

static bool breathe(void) {
  static _Thread_local uint32_t decisions;
  static _Thread_local int64_t last;
  if (++decisions < BREATHE_AFTER) return false;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  int64_t now = (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
  if (now - last < BREATHE_EVERY) return false;
  last = now;
  decisions = 0;
  return true;
}

dm_filter_module DM_ON(new)(dm_config_module m, dm_filter_envoy f) {
  front_stream *s = malloc(sizeof(*s));
  if (s == NULL) return NULL;
  s->config = m;
  s->route = NULL;
  s->lookup = NULL;
  atomic_fetch_add_explicit(&meshgate_counters.streams_created, 1, memory_order_relaxed);
  return s;
}

void DM_ON(destroy)(dm_filter_module m) {
  front_stream *s = (front_stream *)m;
  if (s == NULL) return;
  if (s->lookup != NULL) {
    atomic_store_explicit(&s->lookup->dead, true, memory_order_release);
    front_lookup_unref(s->lookup);
  }
  free(s);
  atomic_fetch_add_explicit(&meshgate_counters.streams_freed, 1, memory_order_relaxed);
}

// Reads what a decision needs. The views are good until the hook returns or the
// header is changed.
static void read_request(dm_filter_envoy f, const front_stream *s, const front_route *route, front_request *q) {
  dm_envoy_buffer v = {NULL, 0};
  dm_module_buffer name = {route->header, route->header_len};
  memset(q, 0, sizeof(*q));
  q->program = route->program;
  q->source = s->config->source;
  if (DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, path_name, &v, 0, NULL)) {
    q->path = v.ptr;
    q->path_len = v.length;
  }
  // A program that refuses everything reads no header.
  if (name.length > 0 && DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, name, &v, 0, NULL)) {
    q->credential = v.ptr;
    q->credential_len = v.length;
    q->has_credential = true;
  }
}

static void prepare(front_result *r) {
  // The buffer is large and written before it is read: it is not cleared.
  memset(r, 0, offsetof(front_result, buffer));
}

dm_request_headers_status DM_ON(request_headers)(dm_filter_envoy f, dm_filter_module m, bool end) {
  front_stream *s = (front_stream *)m;
  const front_route *route = DM_CALL(get_most_specific_route_config)(f);
  front_request q;
  front_result r;

  if (s == NULL) {
    front_refuse_broken(f);
    return DM_REQUEST_HEADERS_STOP;
  }
  // Enabled on a route without a chain: nothing is protected here, but what
  // only a gateway may say is not passed on either.
  if (route == NULL) {
    if (s->config->listener_strips || front_strip(f, false)) return DM_REQUEST_HEADERS_CONTINUE;
    front_refuse_broken(f);
    return DM_REQUEST_HEADERS_STOP;
  }
  prepare(&r);
  read_request(f, s, route, &q);
  q.breathe = breathe();
  meshgateDecide(&q, &r);
  if (r.action != FRONT_LOOKUP)
    return front_apply(f, s, route, &r) ? DM_REQUEST_HEADERS_CONTINUE : DM_REQUEST_HEADERS_STOP;

  front_lookup *l = front_lookup_new(f, r.hash);
  if (l == NULL) {
    front_refuse_broken(f);
    return DM_REQUEST_HEADERS_STOP;
  }
  s->route = route;
  s->lookup = l;
  meshgateResolve(q.source, l, r.hash, r.buffer + r.plugin.off, r.plugin.len);
  return DM_REQUEST_HEADERS_WATERMARK;
}

void DM_ON(scheduled)(dm_filter_envoy f, dm_filter_module m, uint64_t event) {
  front_stream *s = (front_stream *)m;
  front_request q;
  front_result r;

  if (s == NULL || s->lookup == NULL || s->lookup->resumed) return;
  s->lookup->resumed = true;
  prepare(&r);
  read_request(f, s, s->route, &q);
  front_lookup *l = s->lookup;
  meshgateAnswer(&q, l->hash, l->answer, l->packed, l->packed_len, &r);
  if (front_apply(f, s, s->route, &r)) DM_CALL(http_filter_continue_decoding)(f);
}
