// The hooks of a request: decide, or have something looked up or collected and
// decide when it is there.

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "breathe.h"
#include "carried.h"
#include "lookup.h"
#include "repeat.h"

static const dm_module_buffer path_name = {":path", 5};

// Ends the wait of a stream and takes what it has held. What it may still be told
// finds that nobody waits.
static void settle(front_stream *s) {
  s->phase = FRONT_ANSWERED;
  front_lookup_drop_all(s);
  front_budget_release(s);
  free(s->refusal);
  s->refusal = NULL;
  front_linger_end(s);
  if (s->kept) front_route_release(s->route);
  s->route = NULL;
  s->kept = false;
}

dm_filter_module DM_ON(new)(dm_config_module m, dm_filter_envoy f) {
  front_stream *s = calloc(1, sizeof(*s));
  if (s == NULL) return NULL;
  s->config = m;
  atomic_fetch_add_explicit(&meshgate_counters.streams_created, 1, memory_order_relaxed);
  return s;
}

void DM_ON(destroy)(dm_filter_module m) {
  front_stream *s = (front_stream *)m;
  if (s == NULL) return;
  settle(s);
  free(s);
  atomic_fetch_add_explicit(&meshgate_counters.streams_freed, 1, memory_order_relaxed);
}

bool front_is_http2(dm_envoy_buffer v) {
  return v.length >= 6 && (memcmp(v.ptr, "HTTP/2", 6) == 0 || memcmp(v.ptr, "HTTP/3", 6) == 0);
}

// Reads headers of the route up to number n. The views are good until the hook
// returns or the header is changed.
static void read_headers(dm_filter_envoy f, const front_route *route, front_request *q, size_t n) {
  for (size_t i = q->headers; i < n; i++) {
    dm_module_buffer name = {route->names[i].ptr, route->names[i].len};
    dm_envoy_buffer v = {NULL, 0};
    size_t count = 0;
    if (!DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, name, &v, 0, &count)) continue;
    q->values[i] = (front_text){v.ptr, v.length};
    q->present |= 1u << i;
    if (count > 1) q->repeated |= 1u << i;
  }
  q->headers = (uint8_t)n;
}

// Reads what every decision needs.
static void read_request(dm_filter_envoy f, const front_stream *s, const front_body *body, front_request *q) {
  dm_envoy_buffer v = {NULL, 0};
  const front_route *route = s->route;
  // The arrays are written before they are read: they are not cleared.
  memset(q, 0, offsetof(front_request, values));
  q->program = route->program;
  q->source = s->config->source;
  q->body_state = body->state;
  q->body = (front_text){body->data, body->len};
  if (DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, path_name, &v, 0, NULL)) q->path = (front_text){v.ptr, v.length};
  read_headers(f, route, q, route->early);
  if (route->reads_protocol && DM_CALL(http_filter_get_attribute_string)(f, DM_REQUEST_PROTOCOL, &v))
    q->http2 = front_is_http2(v);
  for (const front_lookup *l = s->lookups; l != NULL; l = l->next)
    q->answers[q->answered++] = (front_answer){l->hash, l->packed, l->packed_len, l->answer};
}

// Lets the stream wait. Its route may be taken away meanwhile: it is kept.
static void begin_wait(dm_filter_envoy f, front_stream *s, front_phase phase) {
  s->phase = phase;
  if (s->kept) return;
  front_note_waiting(f);
  front_route_keep(s->route);
  s->kept = true;
}

// Applies a decision. The stream counts as answered from the start: it may be
// gone once a reply has been sent. sees_body says whether the rest of the body would
// come to the hooks.
static front_phase conclude(dm_filter_envoy f, front_stream *s, const front_body *body, bool sees_body, front_result *r) {
  const front_route *route = s->route;
  bool waited = s->kept;
  const front_config *config = s->config;  // outlives the stream
  s->kept = false;  // the reference is ours now
  settle(s);
  if (r->action == FRONT_CONTINUE && s->strips && !front_strip_prefix(f)) {
    r->action = FRONT_REFUSE;
    r->status = 0;
  }
  bool refused = r->action != FRONT_CONTINUE && r->action != FRONT_ISSUE;
  if (refused) front_note_refusal(f, config, r);
  if (sees_body && refused && front_linger(f, s, r)) {
    if (waited) front_route_release(route);
    return FRONT_LINGERING;
  }
  bool passes = front_apply(f, config, route, waited, body, r);
  if (passes) s->phase = FRONT_PASSING;
  if (waited) front_route_release(route);
  return passes ? FRONT_PASSING : FRONT_ANSWERED;
}

// Ends the wait for the body: sends the refusal that has waited, after which the
// stream may be gone, or lets the request go on to what answers it.
static front_phase end_linger(dm_filter_envoy f, front_stream *s) {
  front_result *r = s->refusal;
  const front_config *config = s->config;  // outlives the stream
  s->refusal = NULL;
  settle(s);
  if (r == NULL && front_leads_nowhere(f)) return s->phase = FRONT_PASSING;
  if (r == NULL) {
    front_refuse_broken(f, config);  // its cluster has come meanwhile, and its body is thrown away
    return FRONT_ANSWERED;
  }
  front_refuse(f, config, r);
  free(r);
  return FRONT_ANSWERED;
}

// Decides as far as that is possible now, and applies or begins what comes of
// it. Returns the phase of the stream; FRONT_ANSWERED may mean that there is none
// any more.
static front_phase decide(dm_filter_envoy f, front_stream *s, const front_body *body, bool first) {
  front_request q;
  front_result r;
  front_key key;
  read_request(f, s, body, &q);
  q.prove = first && front_repeat_key(s->route, s->config, &q, &key);
  if (q.prove) {
    memset(&r, 0, offsetof(front_result, buffer));
    if (front_repeat_find(&key, &r)) {
      front_figures(f, s->config);
      return conclude(f, s, body, first, &r);
    }
  }
  q.breathe = first && front_breathe();
  for (;;) {
    // The buffer is large and written before it is read: it is not cleared.
    memset(&r, 0, offsetof(front_result, buffer));
    meshgateDecide(&q, &r);
    if (q.prove) front_repeat_keep(&key, &r);
    q.prove = false;
    if (r.action != FRONT_NEED_HEADERS || q.headers == s->route->headers) break;
    read_headers(f, s->route, &q, s->route->headers);
    q.breathe = false;
  }
  if (q.breathe || s->kept || r.action == FRONT_REFUSE) front_figures(f, s->config);
  switch (r.action) {
    case FRONT_LOOKUP:
      begin_wait(f, s, FRONT_LOOKING);
      if (front_lookup_start(f, s, r.hash, r.buffer + r.plugin.off, r.plugin.len)) return FRONT_LOOKING;
      break;
    case FRONT_NEED_BODY:
      // Not on a stream whose body does not come to the hooks.
      if (body->state != FRONT_BODY_UNREAD || !(first || s->held)) break;
      begin_wait(f, s, FRONT_COLLECTING);
      front_budget_open(f, s);
      if (front_deadline_start(f, s)) return FRONT_COLLECTING;
      break;
    default:
      return conclude(f, s, body, first || s->held, &r);
  }
  r.action = FRONT_REFUSE;
  r.status = 0;
  return conclude(f, s, body, first || s->held, &r);
}

dm_request_headers_status DM_ON(request_headers)(dm_filter_envoy f, dm_filter_module m, bool end) {
  front_stream *s = (front_stream *)m;
  front_selected selected = front_select(f, s != NULL ? s->config : NULL);
  const front_route *route = selected.route;

  if (s == NULL) {
    front_refuse_broken(f, NULL);
    return DM_REQUEST_HEADERS_STOP;
  }
  s->begun = true;
  s->ended = end;
  if (!front_forwarded(f, s->config) || selected.unknown || selected.unmarked) {
    s->phase = FRONT_ANSWERED;
    if (selected.unmarked)
      front_refuse_unmarked(f, s->config);
    else
      front_refuse_broken(f, s->config);
    return DM_REQUEST_HEADERS_STOP;
  }
  // Enabled on a route without a chain: nothing is protected here, but what
  // only a gateway may say is not passed on either.
  if (route == NULL) {
    if (front_strip(f, s->config, false))
      return front_linger(f, s, NULL) ? DM_REQUEST_HEADERS_STOP : DM_REQUEST_HEADERS_CONTINUE;
    s->phase = FRONT_ANSWERED;
    front_refuse_broken(f, s->config);
    return DM_REQUEST_HEADERS_STOP;
  }
  front_body body = {end ? FRONT_BODY_READ : FRONT_BODY_UNREAD, false, NULL, 0};
  s->route = route;
  s->strips = selected.strips;
  switch (decide(f, s, &body, true)) {
    case FRONT_PASSING:
      return front_linger(f, s, NULL) ? DM_REQUEST_HEADERS_STOP : DM_REQUEST_HEADERS_CONTINUE;
    case FRONT_LOOKING:
      s->held = route->body_after_lookup;
      if (s->held) front_budget_open(f, s);
      return s->held ? DM_REQUEST_HEADERS_STOP : DM_REQUEST_HEADERS_WATERMARK;
    case FRONT_COLLECTING:
      s->held = true;
      break;
    case FRONT_LINGERING:
    case FRONT_ANSWERED:
      break;
  }
  return DM_REQUEST_HEADERS_STOP;
}

// Decides with the body so far.
static front_phase decide_with_body(dm_filter_envoy f, front_stream *s, bool in_hook) {
  front_body body = front_body_read(f, in_hook, s->ended);
  front_phase phase = decide(f, s, &body, false);
  front_body_release(&body);
  return phase;
}

dm_request_body_status DM_ON(request_body)(dm_filter_envoy f, dm_filter_module m, bool end) {
  front_stream *s = (front_stream *)m;
  if (s == NULL || s->phase == FRONT_PASSING) return DM_REQUEST_BODY_CONTINUE;
  s->ended = s->ended || end;
  front_phase phase = s->phase;
  if (phase == FRONT_LINGERING) {
    bool passes = end && end_linger(f, s) == FRONT_PASSING;
    return passes ? DM_REQUEST_BODY_CONTINUE : DM_REQUEST_BODY_NO_BUFFER;
  }
  bool waits = phase == FRONT_COLLECTING || phase == FRONT_LOOKING;
  if (waits && !front_budget_hold(s, front_body_size(f, true))) {
    settle(s);
    front_refuse_body(f, s->config, false);
    return DM_REQUEST_BODY_NO_BUFFER;
  }
  if (phase == FRONT_COLLECTING) {
    if (!end && front_body_size(f, true) <= FRONT_BODY) return DM_REQUEST_BODY_BUFFER;
    phase = decide_with_body(f, s, true);
  }
  switch (phase) {
    case FRONT_PASSING:
      return DM_REQUEST_BODY_CONTINUE;
    case FRONT_LINGERING:
    case FRONT_ANSWERED:
      return DM_REQUEST_BODY_NO_BUFFER;
    default:
      return DM_REQUEST_BODY_WATERMARK;
  }
}

// Where there are trailers the last piece of the body does not say that it is
// the last. No listener cleans trailers, so that is always done here, and before
// anything else: they are not shown again.
dm_request_trailers_status DM_ON(request_trailers)(dm_filter_envoy f, dm_filter_module m) {
  front_stream *s = (front_stream *)m;
  if (s == NULL || s->phase == FRONT_ANSWERED) return DM_REQUEST_TRAILERS_STOP;
  s->ended = true;
  if (!front_strip_trailers(f)) {
    settle(s);
    front_refuse_broken(f, s->config);
    return DM_REQUEST_TRAILERS_STOP;
  }
  front_phase phase = s->phase;
  if (phase == FRONT_COLLECTING) phase = decide_with_body(f, s, false);
  if (phase == FRONT_LINGERING) phase = end_linger(f, s);
  return phase == FRONT_PASSING ? DM_REQUEST_TRAILERS_CONTINUE : DM_REQUEST_TRAILERS_STOP;
}

// Envoy answers a waiting stream by itself when its time is up or its body too
// large; what was looked up for it comes too late then. It also answers what it does
// not show to filters: what is malformed, or comes while there is too much. Runs
// inside our own send_response, too, when nothing waits any more.
dm_local_reply_status DM_ON(local_reply)(dm_filter_envoy f, dm_filter_module m, uint32_t code, dm_envoy_buffer details,
                                         bool reset) {
  front_stream *s = (front_stream *)m;
  if (s == NULL) return DM_LOCAL_REPLY_CONTINUE;
  bool waits = s->phase == FRONT_LOOKING || s->phase == FRONT_COLLECTING;
  bool faulty = s->phase == FRONT_LINGERING && s->refusal != NULL && s->refusal->status == 0;
  if (waits || faulty || !s->begun) front_note_undecided(f, s->config);
  // What was not shown here goes nowhere, but its headers are logged.
  if (!s->begun) front_forwarded(f, s->config);
  s->begun = true;
  if (waits || s->phase == FRONT_LINGERING) settle(s);
  return DM_LOCAL_REPLY_CONTINUE;
}

void DM_ON(scheduled)(dm_filter_envoy f, dm_filter_module m, uint64_t event) {
  front_stream *s = (front_stream *)m;
  if (s != NULL && s->phase == FRONT_LINGERING && event == FRONT_DEADLINE) {
    if (end_linger(f, s) == FRONT_PASSING) DM_CALL(http_filter_continue_decoding)(f);
    return;
  }
  if (s != NULL && s->phase == FRONT_COLLECTING && s->deadline != NULL && event == FRONT_DEADLINE) {
    settle(s);
    front_refuse_body(f, s->config, true);
    return;
  }
  if (s == NULL || s->phase != FRONT_LOOKING || s->lookups == NULL || s->lookups->number != event) return;
  front_phase phase;
  if (s->held) {
    phase = decide_with_body(f, s, false);
  } else {
    front_body body = {s->ended ? FRONT_BODY_READ : FRONT_BODY_UNREAD, false, NULL, 0};
    phase = decide(f, s, &body, false);
  }
  if (phase == FRONT_PASSING) DM_CALL(http_filter_continue_decoding)(f);
}
