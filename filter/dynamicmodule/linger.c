// Answers that wait for the rest of a body: refusals, and requests that go to a route
// which answers by itself.
//
// An HTTP/2 stream that is answered while the client still sends is reset behind the
// answer. That is no error (RFC 9113 section 8.1), but clients that are still in use
// take it for one and show no answer at all, curl 7 among them. A body that is not
// large is there a moment later: it is waited for and thrown away. HTTP/1 has no
// streams that could be reset.

#include <stdlib.h>
#include <string.h>

#include "lookup.h"

// Whether a body is coming that is announced not to be large. One without a length may
// never end, such as that of a gRPC call.
static bool bounded_body(dm_filter_envoy f) {
  static const dm_module_buffer name = {"content-length", 14};
  dm_envoy_buffer v = {NULL, 0};
  size_t bytes = 0;
  if (!DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, name, &v, 0, NULL)) return false;
  for (size_t i = 0; i < v.length; i++) {
    if (v.ptr[i] < '0' || v.ptr[i] > '9' || bytes > FRONT_LINGER) return false;
    bytes = bytes * 10 + (size_t)(v.ptr[i] - '0');
  }
  return bytes > 0 && bytes <= FRONT_LINGER;
}

static bool resets(dm_filter_envoy f) {
  dm_envoy_buffer v = {NULL, 0};
  return DM_CALL(http_filter_get_attribute_string)(f, DM_REQUEST_PROTOCOL, &v) && front_is_http2(v);
}

// A route that answers by itself, or none, leads to no cluster.
bool front_leads_nowhere(dm_filter_envoy f) {
  dm_envoy_buffer v = {NULL, 0};
  return !DM_CALL(http_get_cluster_name)(f, &v);
}

static atomic_int lingering;

int front_lingering(void) { return atomic_load_explicit(&lingering, memory_order_relaxed); }

void front_linger_end(front_stream *s) {
  if (!s->lingers) return;
  s->lingers = false;
  atomic_fetch_sub_explicit(&lingering, 1, memory_order_relaxed);
}

bool front_linger(dm_filter_envoy f, front_stream *s, const front_result *refusal) {
  if (s->ended || !bounded_body(f) || !resets(f)) return false;
  if (refusal == NULL && !front_leads_nowhere(f)) return false;
  if (front_lingering() >= FRONT_LINGERERS) return false;
  front_result *copy = refusal == NULL ? NULL : malloc(sizeof(*copy));
  if (copy != NULL) memcpy(copy, refusal, sizeof(*copy));
  if ((refusal != NULL && copy == NULL) || !front_deadline_start(f, s)) {
    free(copy);
    return false;
  }
  s->refusal = copy;
  s->phase = FRONT_LINGERING;
  s->lingers = true;
  atomic_fetch_add_explicit(&lingering, 1, memory_order_relaxed);
  return true;
}
