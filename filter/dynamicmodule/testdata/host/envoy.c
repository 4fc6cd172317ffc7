// Life of a stream: hooks, replies, events, the end.
#include "host.h"

static void unlink_ref(host_link *l) {
  if (atomic_fetch_sub(&l->refs, 1) == 1) free(l);
}

void worker_init(host_worker *w) {
  memset(w, 0, sizeof(*w));
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->more, NULL);
}

host_stream *stream_new(host_worker *w, host_mode mode, front_config *c, dm_route_module r, const char *script) {
  host_stream *s = calloc(1, sizeof(*s));
  s->worker = w;
  s->mode = mode;
  s->config = c;
  s->route = r;
  s->link = malloc(sizeof(*s->link));
  atomic_init(&s->link->refs, 1);
  s->link->stream = s;
  s->headers[0] = (host_field){":path", "", true};
  snprintf(s->headers[0].value, sizeof(s->headers[0].value), "/%s" HOST_QUERY, script);
  s->headers[1] = (host_field){"x-consumer-id", "forged", true};
  // Half of the requests, without a pattern, are gRPC.
  static atomic_uint streams;
  bool grpc = atomic_fetch_add(&streams, 1) * 2654435761u >> 31;
  s->headers[2] = (host_field){"content-type", "", true};
  strcpy(s->headers[2].value, grpc ? "application/grpc" : "text/plain");
  s->headers[3] = (host_field){"content-length", "", true};
  snprintf(s->headers[3].value, sizeof(s->headers[3].value), "%zu", strlen(HOST_TOKEN HOST_REST));
  s->headers[4] = (host_field){"x-forwarded-for", "forged, forged," HOST_PEER, true};
  s->headers[5] = (host_field){"x-forwarded-host", "forged", true};
  s->headers[6] = (host_field){"forwarded", "forged", true};
  s->headers[7] = (host_field){":authority", "shop", true};
  s->headers[8] = (host_field){"x-envoy-external-address", HOST_PEER, true};
  s->headers[9] = (host_field){"x-real-ip", "forged", true};
  s->nowhere = script[0] == 'd';
  s->module = DM_ON(new)(c, s);
  CHECK(s->module != NULL, "no memory");
  return s;
}

void stream_token(host_stream *s, unsigned token) {
  s->token = token;
  s->headers[10] = (host_field){HOST_CREDENTIAL, "", true};
  snprintf(s->headers[10].value, sizeof(s->headers[10].value), "Bearer %u", token);
}

// The scheduler's way to the stream ends after the module's part of it: up to the
// end of that hook a commit may use it.
static void destroy_module(host_stream *s) {
  dm_filter_module m = s->module;
  if (m == NULL) return;
  DM_ON(destroy)(m);
  s->module = NULL;
  s->link->stream = NULL;
}

// The log and the counters have heard of a request what came of it, once.
static void account(const host_stream *s) {
  const char *path = s->headers[0].value;
  if (s->passed) {
    CHECK(s->allowed + s->issued == 1 && s->refused == 0, "%s: passed, counted %u %u %u", path, s->allowed, s->issued, s->refused);
    CHECK(strcmp(s->decision, s->issued ? "issued" : "") == 0, "%s: passed as %s", path, s->decision);
    CHECK(strcmp(s->noted_route, s->issued ? "route-1" : "") == 0, "%s: route %s", path, s->noted_route);
    return;
  }
  // What its route will answer was let pass before it waits for its body.
  if (s->nowhere || s->allowed > 0) {
    CHECK(s->allowed <= 1 && s->issued == 0 && s->refused <= 1, "%s: counted %u %u %u", path, s->allowed, s->issued, s->refused);
    return;
  }
  // A client may leave between a refusal and its answer.
  CHECK(s->allowed + s->issued == 0 && s->refused >= s->replied && s->refused <= 1, "%s: counted %u %u %u", path, s->allowed, s->issued, s->refused);
  CHECK(strcmp(s->decision, s->refused ? "refused" : s->decision[0] ? "none" : "") == 0, "%s: %s", path, s->decision);
  CHECK(!s->replied || s->reason[0] != 0, "%s: no reason", path);
}

// The stream has ended. The filter's own object stays until the event is over.
static void end(host_stream *s) {
  if (s->gone) return;
  DM_ON(stream_complete)(s, s->module);
  account(s);
  s->gone = true;
  if (!s->mode.late_destroy) destroy_module(s);
  s->next = s->worker->dead;
  s->worker->dead = s;
}

void worker_settle(host_worker *w) {
  while (w->dead != NULL) {
    host_stream *s = w->dead;
    w->dead = s->next;
    destroy_module(s);
    unlink_ref(s->link);
    memset(s, 0xdd, sizeof(*s));
    free(s);
  }
}

static void reply_now(host_stream *s) {
  s->pending_reply = false;
  if (!s->mode.lingers) end(s);
}

static void local_reply(host_stream *s, unsigned status) {
  CHECK(!s->replied, "a second reply");
  s->replied = true;
  s->status = status;
  dm_envoy_buffer details = {"details", 7};
  DM_ON(local_reply)(s, s->module, status, details, false);
}

static void enter(host_stream *s) { s->calls++; }

static void leave(host_stream *s) {
  s->calls--;
  if (s->pending_reply && s->calls == 0 && !s->gone) reply_now(s);
}

void DM_CALL(http_send_response)(dm_filter_envoy f, uint32_t status, dm_module_header *headers, size_t n,
                                 dm_module_buffer body, dm_module_buffer details) {
  host_stream *s = f;
  size_t bytes = 0;
  CHECK(!s->gone, "reply to a stream that is gone");
  CHECK(status >= 200 && status < 600 && details.length > 0, "status %u", status);
  CHECK(strcmp(s->decision, "refused") == 0, "a reply before its reason");
  for (size_t i = 0; i < n; i++) bytes += (unsigned char)headers[i].key_ptr[0] + (unsigned char)headers[i].value_ptr[0];
  for (size_t i = 0; i < body.length; i++) bytes += (unsigned char)body.ptr[i];
  CHECK(bytes > 0, "an empty reply");
  // Without this header Envoy tells a gRPC client that all is well.
  bool failure = strcmp(s->headers[2].value, "application/grpc") != 0;
  for (size_t i = 0; i < n; i++)
    failure = failure || (headers[i].key_length == 11 && memcmp(headers[i].key_ptr, "grpc-status", 11) == 0 && headers[i].value_ptr[0] != '0');
  CHECK(failure, "%.*s looks like success to a gRPC client", (int)details.length, details.ptr);
  s->refused_early = status == 401 && !s->sent_end;
  local_reply(s, status);
  if (s->calls > 0) {
    s->pending_reply = true;
  } else {
    reply_now(s);
  }
}

static const char *value_of(const host_stream *s, const char *name) {
  for (size_t i = 0; i < HEADERS; i++)
    if (s->headers[i].used && strcmp(s->headers[i].name, name) == 0) return s->headers[i].value;
  return "";
}

// What a request says of where it comes from is what its listener has asked for.
static void forwarded(const host_stream *s) {
  uint8_t f = s->config->forwarding;
  const char *list = value_of(s, "x-forwarded-for"), *path = value_of(s, ":path"), *told = value_of(s, "x-forwarded-path");
  CHECK(strcmp(list, f == FRONT_FORWARDING_PEER ? HOST_PEER : "forged, forged," HOST_PEER) == 0, "from %s", list);
  CHECK(strcmp(value_of(s, "x-forwarded-host"), f == FRONT_FORWARDING_PEER ? "shop" : "forged") == 0, "host");
  CHECK(strcmp(value_of(s, "forwarded"), f == FRONT_FORWARDING_PEER ? "" : "forged") == 0, "forwarded");
  CHECK(strcmp(value_of(s, "x-real-ip"), f == FRONT_FORWARDING_NONE ? "forged" : HOST_PEER) == 0, "address");
  if (f == FRONT_FORWARDING_NONE) path = "?";
  if (strncmp(path, HOST_BASE, strlen(HOST_BASE)) == 0) path += strlen(HOST_BASE) - 1;  // what came in place of the prefix
  size_t n = strcspn(path, "?");
  CHECK(strlen(told) == n && memcmp(told, path, n) == 0, "path %s for %s", told, path);
}

// A request goes on: without what was to be hidden, and with all the rest.
static void went_on(host_stream *s) {
  const char *path = s->headers[0].value;
  forwarded(s);
  CHECK(!s->dropped || s->nowhere, "%s goes on without its body", path);
  char how = path[strcspn(path, "pnvfirz")];
  bool whole = how == 'n' || how == 'v';
  bool cut = strncmp(path, HOST_BASE, strlen(HOST_BASE)) == 0;
  CHECK(cut == (s->mode.chain != 0 && how != 'i'), "%s goes on", path);
  CHECK(whole || how == 'p' || how == 'i', "%s goes on", path);
  CHECK((strstr(path, HOST_QUERY) != NULL) == whole, "the query of %s", path);
  CHECK(strcmp(s->headers[1].value, "forged") != 0, "a forged header passed");
  const char *who = "";
  for (size_t i = 0; i < HEADERS; i++)
    if (s->headers[i].used && strcmp(s->headers[i].name, HOST_IDENTITY) == 0) who = s->headers[i].value;
  if (how == 'i') return;
  CHECK(*who != 0, "%s goes on without an identity", path);
  if (how == 'v') {
    unsigned token = TOKENS, revocation = 0;
    CHECK(sscanf(who, "%u at %u", &token, &revocation) == 2 && token == s->token, "token %u goes on as %s", s->token, who);
    CHECK(revocation >= s->since, "token %u was revoked at %u and goes on as %s", s->token, s->since, who);
  }
  char body[sizeof(s->buffered) + sizeof(s->received) + 1];
  size_t n = s->nbuffered + s->nreceived, length = (size_t)atoi(s->headers[3].value);
  memcpy(body, s->buffered, s->nbuffered);
  memcpy(body + s->nbuffered, s->received, s->nreceived);
  body[n] = 0;
  if (s->nowhere) return;
  if (strncmp(who, HOST_HIDDEN, 8) != 0) {
    CHECK(length == strlen(HOST_TOKEN HOST_REST), "%s: a length of %zu", path, length);
    CHECK(n == 0 || strncmp(body, HOST_TOKEN, strlen(HOST_TOKEN)) == 0, "%s: the body %s", path, body);
    return;
  }
  CHECK(length == n, "%s: %zu bytes with a length of %zu", path, n, length);
  CHECK(strcmp(body, s->sent_trailers ? "" : HOST_REST) == 0, "%s: the body %s", path, body);
}

void stream_headers(host_stream *s, bool last) {
  s->sent_headers = true;
  s->since = go_revoked(s->token);
  s->sent_end = last;
  enter(s);
  dm_request_headers_status st = DM_ON(request_headers)(s, s->module, last);
  leave(s);
  if (s->gone || s->replied) return;
  s->passed = st == DM_REQUEST_HEADERS_CONTINUE;
  if (s->passed) went_on(s);
  s->held_all = st == DM_REQUEST_HEADERS_WATERMARK;
  s->seen_end = last;
}

static void deliver_body(host_stream *s, bool last) {
  enter(s);
  dm_request_body_status st = DM_ON(request_body)(s, s->module, last);
  leave(s);
  if (s->gone || s->replied) return;
  s->seen_end = s->seen_end || last;
  if (st == DM_REQUEST_BODY_CONTINUE) {
    if (!s->passed) went_on(s);
    s->passed = true;
    s->nreceived = s->nbuffered = 0;
    return;
  }
  s->dropped = s->dropped || st == DM_REQUEST_BODY_NO_BUFFER;
  if (st != DM_REQUEST_BODY_NO_BUFFER) {
    memcpy(s->buffered + s->nbuffered, s->received, s->nreceived);
    s->nbuffered += s->nreceived;
  }
  s->nreceived = 0;
}

void stream_body(host_stream *s, const char *text, bool last) {
  // A client goes on sending after it was answered.
  if (s->gone || s->sent_end) return;
  s->sent_end = last;
  size_t n = strlen(text);
  if (s->held_all && !s->replied) {  // not shown until the filter continues
    memcpy(s->buffered + s->nbuffered, text, n);
    s->nbuffered += n;
    return;
  }
  memcpy(s->received, text, n);
  s->nreceived = n;
  deliver_body(s, last);
}

static void deliver_trailers(host_stream *s) {
  enter(s);
  dm_request_trailers_status st = DM_ON(request_trailers)(s, s->module);
  leave(s);
  if (s->gone || s->replied) return;
  s->seen_end = true;
  if (st == DM_REQUEST_TRAILERS_CONTINUE) {
    if (!s->passed) went_on(s);
    s->passed = true;
  }
  CHECK(!s->trailers[0].used && !s->trailers[1].used, "a forged trailer passed");
}

void stream_trailers(host_stream *s) {
  if (s->gone || s->sent_end) return;
  s->sent_end = true;
  s->sent_trailers = true;
  s->trailers[0] = (host_field){"x_consumer_id", "forged", true};
  s->trailers[1] = (host_field){"Forwarded", "for=192.0.2.9", true};
  if (!s->held_all || s->replied) deliver_trailers(s);
}

void DM_CALL(http_filter_continue_decoding)(dm_filter_envoy f) {
  host_stream *s = f;
  CHECK(!s->gone && !s->replied, "continues a stream that is over");
  if (s->passed) return;
  s->passed = true;
  went_on(s);
  if (s->held_all) {
    s->held_all = false;
    if (s->nbuffered > 0) {
      memcpy(s->received, s->buffered, s->nbuffered);
      s->nreceived = s->nbuffered;
      s->nbuffered = 0;
      deliver_body(s, s->sent_end && !s->trailers[0].used);
    }
    if (!s->gone && s->trailers[0].used) deliver_trailers(s);
  }
  if (s->gone || !s->mode.fails_behind) return;
  local_reply(s, 503);
  end(s);
}

void stream_timeout(host_stream *s) {
  if (s->gone || s->replied) return;
  local_reply(s, 504);
  reply_now(s);
}

void stream_reset(host_stream *s) { end(s); }

// ---- events ----

struct scheduler {
  host_link *link;
  host_worker *worker;
};

dm_scheduler DM_CALL(http_filter_scheduler_new)(dm_filter_envoy f) {
  host_stream *s = f;
  CHECK(!s->gone, "scheduler of a stream that is gone");
  struct scheduler *c = malloc(sizeof(*c));
  c->link = s->link;
  c->worker = s->worker;
  atomic_fetch_add(&s->link->refs, 1);
  return c;
}

void DM_CALL(http_filter_scheduler_commit)(dm_scheduler p, uint64_t id) {
  struct scheduler *c = p;
  // Read from the resolver's thread, as an Envoy does that asks the stream for its
  // worker: a race with the stream's end if the front does not order the two.
  CHECK(c->link->stream != NULL, "an event for a stream that is gone");
  host_worker *w = c->link->stream->worker;
  host_event *e = malloc(sizeof(*e));
  *e = (host_event){c->link, id, NULL};
  atomic_fetch_add(&c->link->refs, 1);
  pthread_mutex_lock(&w->lock);
  if (w->last != NULL) w->last->next = e;
  else w->first = e;
  w->last = e;
  pthread_cond_signal(&w->more);
  pthread_mutex_unlock(&w->lock);
}

void DM_CALL(http_filter_scheduler_delete)(dm_scheduler p) {
  struct scheduler *c = p;
  unlink_ref(c->link);
  free(c);
}

bool worker_run(host_worker *w) {
  pthread_mutex_lock(&w->lock);
  host_event *e = w->first;
  if (e != NULL) {
    w->first = e->next;
    if (w->first == NULL) w->last = NULL;
  }
  pthread_mutex_unlock(&w->lock);
  if (e == NULL) return false;
  host_stream *s = e->link->stream;
  if (s != NULL && !s->gone) DM_ON(scheduled)(s, s->module, e->id);
  unlink_ref(e->link);
  free(e);
  worker_settle(w);
  return true;
}
