// The ten functions that Envoy looks up in a library for its filter for Go. A request that
// passes with what is known is the front's from its headers to its end, and the official
// interface never hears of it; any other is the official interface's from its first call on.
//
// Whoever has a request finalises it, once, after its end. HTTP/3 is not for the front: Envoy
// may log such a request after its end, and the official interface finalises late.

#include "front.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../dynamicmodule/breathe.h"
#include "../../dynamicmodule/reserved.h"
#include "api.h"
#include "ways.h"

// By their places in contract.IdentityHeaders.
static const front_text identity_names[FRONT_IDENTITY_HEADERS] = {
    {"x-consumer-id", 13},           {"x-consumer-custom-id", 20},  {"x-consumer-username", 19},
    {"x-credential-identifier", 23}, {"x-authenticated-scope", 21}, {"x-authenticated-userid", 22},
    {"x-anonymous-consumer", 20},
};

#define NO_GRPC (-1)  // the answer has no status of gRPC

// ---- configurations ----

// The parser does not learn the id of what it makes: one is made at a time.
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

uint64_t envoyGoFilterNewHttpPluginConfig(api_config *c) {
  pthread_mutex_lock(&making);
  uint64_t id = sdkNewHttpPluginConfig(c);
  meshgateMade(id);
  pthread_mutex_unlock(&making);
  return id;
}

uint64_t envoyGoFilterMergeHttpPluginConfig(uint64_t name, uint64_t len, uint64_t parent, uint64_t child) {
  pthread_mutex_lock(&making);
  uint64_t id = sdkMergeHttpPluginConfig(name, len, parent, child);
  meshgateMade(id);
  pthread_mutex_unlock(&making);
  return id;
}

void envoyGoFilterDestroyHttpPluginConfig(uint64_t id, int64_t need_delay) {
  meshgateGone(id);
  sdkDestroyHttpPluginConfig(id, need_delay);
}

// ---- requests that pass ----

// Headers or trailers as Envoy has copied them.
typedef struct shown {
  front_text of[2 * FRONT_SHOWN];
  char bytes[FRONT_BYTES];
} shown;

static bool remove_header(api_state *s, front_text name) {
  return envoyGoFilterHttpRemoveHeader(s, (char *)name.ptr, (int)name.len) == API_OK;
}

static bool set_header(api_state *s, front_text name, const char *value, size_t len) {
  return envoyGoFilterHttpSetHeaderHelper(s, (char *)name.ptr, (int)name.len, (char *)value, (int)len, API_HEADER_SET) == API_OK;
}

static bool sent(const front_request *q, front_text name) {
  for (size_t i = 0; i < q->headers; i++)
    if (q->sent[2 * i].len == name.len && memcmp(q->sent[2 * i].ptr, name.ptr, (size_t)name.len) == 0) return true;
  return false;
}

// Makes the edits. On the worker Envoy makes them at once.
static bool apply(api_state *s, const front_request *q, const front_result *r) {
  bool ok = true;
  for (size_t i = 0; i < q->headers; i++) {
    front_text name = q->sent[2 * i];
    if ((r->remove[i / 64] >> (i % 64) & 1) || (r->strip && front_reserved(name.ptr, (size_t)name.len, false)))
      ok = remove_header(s, name) && ok;
  }
  if (r->path > 0) {
    const front_text *path = &q->sent[2 * (r->path - 1)];
    ok = set_header(s, path[0], path[1].ptr, (size_t)path[1].len) && ok;
  }
  for (size_t i = 0; i < FRONT_IDENTITY_HEADERS; i++) {
    front_span at = r->identity[i];
    if (at.len > 0)
      ok = set_header(s, identity_names[i], r->buffer + at.off, at.len) && ok;
    else if (!r->strip && sent(q, identity_names[i]))
      ok = remove_header(s, identity_names[i]) && ok;
  }
  return ok;
}

// Lets a request pass, if it does with what is known. False leaves it as it was, or, if Envoy
// takes an edit from nobody, to whoever decides it from the start.
static bool pass(api_state *s, uint64_t end, uint64_t n, uint64_t bytes) {
  uint64_t protocol = 0;
  shown h;
  front_result r;
  if (n > FRONT_SHOWN || bytes > FRONT_BYTES) return false;
  if (envoyGoFilterHttpGetIntegerValue(s->req, API_VALUE_PROTOCOL, &protocol) != API_OK || protocol > API_HTTP2) return false;
  if (envoyGoFilterHttpCopyHeaders(s, h.of, h.bytes) != API_OK) return false;
  front_request q = {s->req->config_id, h.of, (uint32_t)n, protocol == API_HTTP2, end != 0, front_breathe()};
  if (!front_way_set(s->req, FRONT_PASSED)) return false;
  if (meshgatePass(&q, &r) && apply(s, &q, &r)) return true;
  front_way_forget(s->req);
  return false;
}

// Removes what clients may not say behind a body. False if that cannot be done.
static bool strip_trailers(api_state *s, uint64_t n, uint64_t bytes) {
  front_text *of = malloc(2 * n * sizeof(*of) + bytes + 1);
  if (of == NULL) return false;
  bool ok = envoyGoFilterHttpCopyTrailers(s, of, of + 2 * n) == API_OK;
  for (size_t i = 0; ok && i < n; i++) {
    front_text name = of[2 * i];
    if (front_reserved_trailer(name.ptr, (size_t)name.len))
      ok = envoyGoFilterHttpRemoveTrailer(s, (char *)name.ptr, (int)name.len) == API_OK;
  }
  free(of);
  return ok;
}

// ---- what Envoy calls about requests ----

static uint64_t refuse(api_state *s) {
  static char details[] = "meshgate_undecided";
  envoyGoFilterHttpSendLocalReply(s, 503, NULL, 0, NULL, 0, NO_GRPC, details, sizeof(details) - 1);
  return API_LOCAL_REPLY;
}

// From here on the official interface has the request. Without a note of that nobody would
// know who finalises it, so it is not handed on then.
static uint64_t hand_on(api_state *s, uint64_t end, uint64_t n, uint64_t bytes) {
  if (front_way_set(s->req, FRONT_HANDED_ON)) return sdkOnHttpHeader(s, end, n, bytes);
  return s->is_encoding ? API_CONTINUE : refuse(s);
}

// Headers and trailers, of requests and of answers.
uint64_t envoyGoFilterOnHttpHeader(api_state *s, uint64_t end, uint64_t n, uint64_t bytes) {
  switch (front_way_of(s->req)) {
    case FRONT_HANDED_ON: return sdkOnHttpHeader(s, end, n, bytes);
    case FRONT_PASSED:
      if (s->is_encoding || s->state != API_PROCESSING_TRAILER || strip_trailers(s, n, bytes)) return API_CONTINUE;
      return refuse(s);
    default:
      if (!s->is_encoding && s->state == API_PROCESSING_HEADER && pass(s, end, n, bytes)) return API_CONTINUE;
      return hand_on(s, end, n, bytes);
  }
}

uint64_t envoyGoFilterOnHttpData(api_state *s, uint64_t end, uint64_t buffer, uint64_t len) {
  return front_way_of(s->req) == FRONT_PASSED ? API_CONTINUE : sdkOnHttpData(s, end, buffer, len);
}

// The filter logs nothing. The official interface would take a request for its own that is
// logged before its headers come.
void envoyGoFilterOnHttpLog(api_request *r, uint64_t type, api_state *dec, api_state *enc, uint64_t a, uint64_t b, uint64_t c,
                            uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  if (front_way_of(r) == FRONT_HANDED_ON) sdkOnHttpLog(r, type, dec, enc, a, b, c, d, e, f, g, h);
}

void envoyGoFilterOnHttpStreamComplete(api_request *r) {
  if (front_way_of(r) == FRONT_HANDED_ON) sdkOnHttpStreamComplete(r);
}

void envoyGoFilterOnHttpDestroy(api_request *r, uint64_t reason) {
  front_way way = front_way_of(r);
  front_way_forget(r);
  if (way == FRONT_HANDED_ON)
    sdkOnHttpDestroy(r, reason);
  else
    envoyGoFilterHttpFinalize(r, API_NORMAL_FINALIZE);
}

void envoyGoRequestSemaDec(api_request *r) { sdkRequestSemaDec(r); }

void envoyGoFilterCleanUp(void) { sdkCleanUp(); }
