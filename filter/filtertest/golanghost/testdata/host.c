// A host for the library of the contrib filter, in the place of Envoy: it loads the library,
// shows it the requests that a test describes on standard input, and tells what came of
// each on standard output. What it does is what golang_filter.cc and processor_state.cc of
// Envoy 1.39 do on the way of a request; calls that the library has no use for abort.
//
// It is stricter than Envoy: a request is poisoned when it is finalised, a configuration when it
// has been read, and a call about a stream that has ended counts.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "text.h"

// ---- the library ----

static uint64_t (*new_config)(httpConfig *);
static uint64_t (*merge_config)(uint64_t, uint64_t, uint64_t, uint64_t);
static void (*destroy_config)(uint64_t, int64_t);
static uint64_t (*on_header)(processState *, uint64_t, uint64_t, uint64_t);
static uint64_t (*on_data)(processState *, uint64_t, uint64_t, uint64_t);
static void (*on_log)(httpRequest *, uint64_t, processState *, processState *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
static void (*on_complete)(httpRequest *);
static void (*on_destroy)(httpRequest *, uint64_t);
static void (*sema_dec)(httpRequest *);
static void (*clean_up)(void);

static void (*storm_set)(int, int);
static void (*storm_forget)(int);
static void (*storm_go)(unsigned long long *);
static void (*storm_hold)(int);
static void (*storm_arrived)(void);
static void (*storm_put)(void *, void *, int);

static void *symbol(void *lib, const char *name) {
  void *s = dlsym(lib, name);
  if (s == NULL) {
    fprintf(stderr, "the library does not export %s\n", name);
    exit(1);
  }
  return s;
}

static void load(const char *path) {
  void *lib = dlopen(path, RTLD_LAZY);
  if (lib == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  new_config = symbol(lib, "envoyGoFilterNewHttpPluginConfig");
  merge_config = symbol(lib, "envoyGoFilterMergeHttpPluginConfig");
  destroy_config = symbol(lib, "envoyGoFilterDestroyHttpPluginConfig");
  on_header = symbol(lib, "envoyGoFilterOnHttpHeader");
  on_data = symbol(lib, "envoyGoFilterOnHttpData");
  on_complete = symbol(lib, "envoyGoFilterOnHttpStreamComplete");
  on_destroy = symbol(lib, "envoyGoFilterOnHttpDestroy");
  sema_dec = symbol(lib, "envoyGoRequestSemaDec");
  on_log = symbol(lib, "envoyGoFilterOnHttpLog");
  clean_up = symbol(lib, "envoyGoFilterCleanUp");
  // Only the library of testdata/storm has these.
  storm_set = dlsym(lib, "stormSet");
  storm_forget = dlsym(lib, "stormForget");
  storm_go = dlsym(lib, "stormGo");
  storm_hold = dlsym(lib, "stormHold");
  storm_arrived = dlsym(lib, "stormArrived");
  storm_put = dlsym(lib, "stormPut");
}

#include "worker.h"

// ---- a stream ----

static stream *stream_of(void *state) { return (stream *)((processState *)state)->req; }

static int in_go(stream *s) { return s->state.state == PROCESSING_HEADER || s->state.state == PROCESSING_DATA || s->state.state == PROCESSING_TRAILER; }

// Why a call is refused, or CAPIOK.
static CAPIStatus refused(stream *s) {
  if (s->destroyed) {
    __atomic_add_fetch(&late_calls, 1, __ATOMIC_RELAXED);
    return CAPIFilterIsDestroy;
  }
  return in_go(s) ? CAPIOK : CAPINotInGo;
}

#include "stream.h"

static void answer(stream *s, event *e) {
  s->over = s->replied = 1;
  if (s->outcomes++ > 0) return;
  s->reply = *e;
  *e = (event){0}; // its texts are the reply's
}

// Carries out what the library has asked of the worker.
static void carry_out(event *e) {
  stream *s = e->s;
  if (!s->destroyed) switch (e->kind) {
      case EVENT_CONTINUE:
        if (!s->over) go_on(s, e->status);
        break;
      case EVENT_REPLY: answer(s, e); break;
      case EVENT_SET:
        if (!e->add) headers_remove(&s->headers, e->name.p, e->name.n);
        headers_add(&s->headers, e->name, e->value);
        e->name = e->value = (text){NULL, 0};
        break;
      case EVENT_REMOVE: headers_remove(&s->headers, e->name.p, e->name.n); break;
      case EVENT_REMOVE_TRAILER: headers_remove(&s->trailers, e->name.p, e->name.n); break;
      case EVENT_REFRESH: s->refreshed = headers_find(&s->headers, "x-meshgate-oauth", 16) != NULL; break;
      case EVENT_PROPERTY: *e->rc = property(s, e->name.p, e->value_data, e->value_len); sema_dec(&s->request); break;
    }
  event_free(e);
}

CAPIStatus property(stream *s, const char *name, uint64_t *data, int *len) {
  if (strcmp(name, "connection.id") == 0)
    snprintf(s->property, sizeof(s->property), "%ld", s->connection);
  else
    strcpy(s->property, s->refreshed && s->oauth_route ? "oauth2" : "upstream");
  *data = (uint64_t)(uintptr_t)s->property;
  *len = (int)strlen(s->property);
  return CAPIOK;
}

// Makes an edit now, or later if this is not the worker.
static CAPIStatus edit(stream *s, event *e) {
  CAPIStatus r = refused(s);
  if (r != CAPIOK)
    event_free(e);
  else if (on_worker(s))
    carry_out(e);
  else
    post(e);
  return r;
}

// ---- what the library calls ----

CAPIStatus envoyGoFilterHttpContinue(void *p, int status) {
  stream *s = stream_of(p);
  CAPIStatus r = refused(s);
  if (r != CAPIOK) return r;
  event *e = event_of(s, EVENT_CONTINUE);
  e->status = (uint64_t)status;
  post(e); // always, like Envoy
  return CAPIOK;
}

CAPIStatus envoyGoFilterHttpSendLocalReply(void *p, int code, void *body, int body_len, void *strs, int n, long long int grpc, void *details, int details_len) {
  stream *s = stream_of(p);
  CAPIStatus r = refused(s);
  if (r != CAPIOK) return r;
  event *e = event_of(s, EVENT_REPLY);
  e->status = (uint64_t)code;
  e->grpc = grpc;
  e->body = copy(body, (size_t)body_len);
  e->details = copy(details, (size_t)details_len);
  GoString *of = strs;
  e->headers = calloc(1, sizeof(headers));
  for (int i = 0; i + 1 < n; i += 2)
    if (of[i + 1].n > 0) headers_add(e->headers, copy(of[i].p, (size_t)of[i].n), copy(of[i + 1].p, (size_t)of[i + 1].n));
  post(e);
  return CAPIOK;
}

CAPIStatus envoyGoFilterHttpSendPanicReply(void *p, void *details, int len) {
  fprintf(stderr, "panic reply: %.*s\n", len, (char *)details);
  return envoyGoFilterHttpSendLocalReply(p, 500, "error happened in filter\r\n", 26, NULL, 0, 0, "", 0);
}

static CAPIStatus copy_all(headers *h, GoString *strs, char *buf) {
  for (size_t i = 0; i < h->n; i++) {
    text of[2] = {h->of[i].name, h->of[i].value};
    for (int j = 0; j < 2; j++) {
      memcpy(buf, of[j].p, of[j].n);
      strs[2 * i + (size_t)j] = (GoString){buf, (ptrdiff_t)of[j].n};
      buf += of[j].n;
    }
  }
  return CAPIOK;
}

CAPIStatus envoyGoFilterHttpCopyHeaders(void *p, void *strs, void *buf) {
  stream *s = stream_of(p);
  CAPIStatus r = refused(s);
  return r != CAPIOK ? r : copy_all(&s->headers, strs, buf);
}

CAPIStatus envoyGoFilterHttpCopyTrailers(void *p, void *strs, void *buf) {
  stream *s = stream_of(p);
  CAPIStatus r = refused(s);
  return r != CAPIOK ? r : copy_all(&s->trailers, strs, buf);
}

CAPIStatus envoyGoFilterHttpSetHeaderHelper(void *p, void *key, int key_len, void *value, int value_len, headerAction act) {
  event *e = event_of(stream_of(p), EVENT_SET);
  e->name = copy(key, (size_t)key_len);
  e->value = copy(value, (size_t)value_len);
  e->add = act == HeaderAdd;
  return edit(e->s, e);
}

CAPIStatus envoyGoFilterHttpRemoveHeader(void *p, void *key, int key_len) {
  event *e = event_of(stream_of(p), EVENT_REMOVE);
  e->name = copy(key, (size_t)key_len);
  return edit(e->s, e);
}

CAPIStatus envoyGoFilterHttpRemoveTrailer(void *p, void *key, int key_len) {
  event *e = event_of(stream_of(p), EVENT_REMOVE_TRAILER);
  e->name = copy(key, (size_t)key_len);
  return edit(e->s, e);
}

CAPIStatus envoyGoFilterHttpGetBuffer(void *p, uint64_t buffer, void *value) {
  stream *s = stream_of(p);
  CAPIStatus r = refused(s);
  if (r != CAPIOK) return r;
  text *t = shown(s, buffer);
  if (t == NULL) return CAPIInvalidPhase;
  memcpy(value, t->p, t->n);
  return CAPIOK;
}

CAPIStatus envoyGoFilterHttpSetBufferHelper(void *p, uint64_t buffer, void *data, int len, bufferAction act) {
  stream *s = stream_of(p);
  CAPIStatus r = refused(s);
  if (r != CAPIOK) return r;
  text *t = shown(s, buffer);
  if (t == NULL || act == Prepend) return CAPIInvalidPhase;
  if (act == Set) t->n = 0;
  append(t, data, (size_t)len);
  return CAPIOK;
}

// ---- what the library calls about a request ----

CAPIStatus envoyGoFilterHttpClearRouteCache(void *r, bool refresh) {
  if (!refresh) abort();
  event *e = event_of(r, EVENT_REFRESH);
  return edit(e->s, e);
}

CAPIStatus envoyGoFilterHttpGetStringValue(void *r, int id, uint64_t *data, int *len) {
  static char address[] = "198.51.100.7:4711";
  stream *s = r;
  CAPIStatus status = refused(s);
  if (status != CAPIOK) return status;
  if (id != VALUE_REMOTE_ADDRESS) abort();
  *data = (uint64_t)(uintptr_t)address;
  *len = (int)strlen(address);
  return CAPIOK;
}

CAPIStatus envoyGoFilterHttpGetIntegerValue(void *r, int id, uint64_t *value) {
  stream *s = r;
  CAPIStatus status = refused(s);
  if (status != CAPIOK) return status;
  switch (id) {
    case VALUE_PROTOCOL: *value = (uint64_t)s->protocol; break;
    case VALUE_TLS: *value = (uint64_t)s->tls; break;
    default: abort();
  }
  return CAPIOK;
}

CAPIStatus envoyGoFilterHttpGetStringProperty(void *r, void *key, int key_len, uint64_t *data, int *len, int *rc) {
  stream *s = r;
  CAPIStatus status = refused(s);
  if (status != CAPIOK) return status;
  event *e = event_of(s, EVENT_PROPERTY);
  e->name = copy(key, (size_t)key_len);
  if (strcmp(e->name.p, "xds.cluster_name") != 0 && strcmp(e->name.p, "connection.id") != 0) abort();
  if (on_worker(s)) {
    status = property(s, e->name.p, data, len);
    event_free(e);
    return status;
  }
  e->value_data = data;
  e->value_len = len;
  e->rc = rc;
  post(e);
  return CAPIYield;
}

// ---- what it calls about nothing ----

static atomic_long made, finalised, at_once;
static _Thread_local void *ending; // the request that this thread is destroying

// Frees a stream when both Envoy and the library are done with it.
void envoyGoFilterHttpFinalize(void *r, int reason) {
  (void)reason;
  stream *s = r;
  if (!s->destroyed) {
    fprintf(stderr, "a request is finalised before it is destroyed\n");
    abort();
  }
  headers_free(&s->headers);
  headers_free(&s->trailers);
  while (s->shown_n > 0) drop_latest(s);
  free(s->body.p);
  free(s->buffered.p);
  free(s->out.p);
  event_clear(&s->reply);
  memset(r, 0xDD, sizeof(stream));
  free(r);
  atomic_fetch_add(&finalised, 1);
  if (r == ending) atomic_fetch_add(&at_once, 1);
}

void envoyGoConfigHttpFinalize(void *c) { free(c); }

void envoyGoFilterLog(uint32_t level, void *text, int len) { fprintf(stderr, "%u %.*s\n", level, len, (char *)text); }

uint32_t envoyGoFilterLogLevel(void) { return 2; }

// What Envoy has got since 1.33 is not here at all: the library must do without it.
#define UNUSED(name) \
  CAPIStatus name(void) { \
    fprintf(stderr, "the library calls " #name "\n"); \
    abort(); \
  }
UNUSED(envoyGoFilterHttpAddData)
UNUSED(envoyGoFilterHttpGetHeader)
UNUSED(envoyGoFilterHttpDrainBuffer)
UNUSED(envoyGoFilterHttpSetTrailer)
UNUSED(envoyGoFilterHttpGetDynamicMetadata)
UNUSED(envoyGoFilterHttpSetDynamicMetadata)
UNUSED(envoyGoFilterHttpSetStringFilterState)
UNUSED(envoyGoFilterHttpGetStringFilterState)
UNUSED(envoyGoFilterHttpDefineMetric)
UNUSED(envoyGoFilterHttpIncrementMetric)
UNUSED(envoyGoFilterHttpGetMetric)
UNUSED(envoyGoFilterHttpRecordMetric)

// ---- the script ----

#define STREAMS 128

static char plugin[] = "meshgate";

static void show(const headers *h) {
  printf(" %zu", h->n);
  for (size_t i = 0; i < h->n; i++) {
    putchar(' ');
    hex(h->of[i].name);
    putchar(' ');
    hex(h->of[i].value);
  }
}

static char *word(void) { return strtok(NULL, " \n"); }

static long number(void) { return atol(word()); }

// Has a configuration read, and returns its id: 0 for one of a listener that is refused.
// Envoy ends where one of a route is refused, RELEASE_ASSERT in
// RoutePluginConfig::getMergedConfigId. The bytes are good for the call only.
static uint64_t read_config(int route, const text *message) {
  httpConfig *c = calloc(1, sizeof(*c));
  text bytes = copy(message->p, message->n);
  c->plugin_name_ptr = (uint64_t)(uintptr_t)plugin;
  c->plugin_name_len = strlen(plugin);
  c->is_route_config = route;
  c->concurrency = WORKERS;
  c->config_ptr = (uint64_t)(uintptr_t)bytes.p;
  c->config_len = bytes.n;
  uint64_t id = new_config(c);
  if (id == 0 && route) {
    fprintf(stderr, "the configuration of a route is refused\n");
    abort();
  }
  free(bytes.p);
  if (route) free(c); // that of a listener is the library's, until it finalises it
  return id;
}

static uint64_t merged_config(uint64_t parent, uint64_t child) {
  return merge_config((uint64_t)(uintptr_t)plugin, strlen(plugin), parent, child);
}

// config ROUTE BYTES: tells the id.
static void config(void) {
  int route = (int)number();
  text bytes = unhex(word());
  printf("config %lu\n", (unsigned long)read_config(route, &bytes));
  free(bytes.p);
}

// merge PARENT CHILD: tells the id.
static void merge(void) {
  uint64_t parent = (uint64_t)number(), child = (uint64_t)number();
  printf("config %lu\n", (unsigned long)merged_config(parent, child));
}

static void read_headers(headers *h) {
  for (long n = number(); n > 0; n--) {
    text name = unhex(word());
    headers_add(h, name, unhex(word()));
  }
}

static void tell(stream *s) {
  if (s->replied) {
    printf("reply %d %lld ", (int)s->reply.status, s->reply.grpc);
    hex(s->reply.body);
    putchar(' ');
    hex(s->reply.details);
    show(s->reply.headers);
  } else if (s->passed) {
    printf("pass %d ", s->refreshed);
    hex(s->out);
    show(&s->headers);
    show(&s->trailers);
  } else {
    printf("nothing");
  }
  putchar('\n');
}

static stream *streams[STREAMS]; // those that were begun, by the number that the test gives them

static stream *new_stream(struct worker *w) {
  stream *s = calloc(1, sizeof(*s));
  s->request.plugin_name = (Cstring){plugin, strlen(plugin)};
  s->request.worker_id = (uint32_t)(w - workers);
  s->state.req = s->encoding.req = &s->request;
  s->encoding.is_encoding = 1;
  s->worker = w;
  s->piece = PIECE;
  atomic_fetch_add(&made, 1);
  return s;
}

// begin N CONFIG PROTOCOL TLS OAUTH_ROUTE CONNECTION OPEN LOGGED BODY N HEADERS.. N TRAILERS..:
// shows a request to the library, and tells whether it waits or is over. BODY is "none" for
// none, and more is to come after it, but does not, if OPEN. If LOGGED, Envoy logs the request
// before it is shown.
static void begin(void) {
  stream *s = new_stream(&workers[0]);
  streams[number() % STREAMS] = s;
  s->request.configId = (uint64_t)number();
  s->protocol = (int)number();
  s->tls = (int)number();
  s->oauth_route = (int)number();
  s->connection = number();
  s->open = (int)number();
  int logged = (int)number();
  char *body = word();
  s->has_body = strcmp(body, "none") != 0;
  s->body = s->has_body ? unhex(body) : copy("", 0);
  read_headers(&s->headers);
  read_headers(&s->trailers);
  s->has_trailers = s->trailers.n > 0;
  if (logged) log_of(s, LOG_DOWNSTREAM_START);
  decode_headers(s);
  arrive(s);
  puts(s->over ? "over" : "waits");
}

// Ends a stream as Envoy does, which logs every request. The library may free it in this.
static void end(stream *s, uint64_t reason) {
  log_of(s, LOG_DOWNSTREAM_END);
  on_complete(&s->request);
  forget(s);
  ending = s;
  on_destroy(&s->request, reason);
  ending = NULL;
}

// finish N: lets a request go on until it is over, tells what came of it, and destroys it.
static void finish(void) {
  stream *s = streams[number() % STREAMS];
  while (!s->over) {
    event *e = take(s->worker, 20);
    if (e == NULL) break;
    stream *of = e->s;
    carry_out(e);
    arrive(of);
  }
  tell(s);
  if (s->over) respond(s);
  end(s, 0);
}

// log N: has Envoy log a request that is under way.
static void log_one(void) {
  log_of(streams[number() % STREAMS], LOG_DOWNSTREAM_PERIODIC);
  puts("done");
}

// cancel N: destroys a request that waits.
static void cancel(void) {
  end(streams[number() % STREAMS], 1);
  puts("done");
}

// destroy ID: destroys a configuration.
static void destroy(void) {
  destroy_config((uint64_t)number(), 0);
  puts("done");
}

// collect: has the library finalise what it does not use any more, and tells how many
// calls were about a stream that had been destroyed.
static void collect(void) {
  clean_up();
  printf("late %ld\n", __atomic_load_n(&late_calls, __ATOMIC_RELAXED));
}

#include "storm.h"
#include "bench.h"

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  workers_begin();
  setvbuf(stdout, NULL, _IOLBF, 0);
  load(argv[1]);
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stdin) > 0) {
    char *what = strtok(line, " \n");
    if (what == NULL) continue;
    if (strcmp(what, "config") == 0) config();
    else if (strcmp(what, "merge") == 0) merge();
    else if (strcmp(what, "begin") == 0) begin();
    else if (strcmp(what, "finish") == 0) finish();
    else if (strcmp(what, "log") == 0) log_one();
    else if (strcmp(what, "cancel") == 0) cancel();
    else if (strcmp(what, "destroy") == 0) destroy();
    else if (strcmp(what, "collect") == 0) collect();
    else if (strcmp(what, "storm") == 0) storm();
    else if (strcmp(what, "memory") == 0) memory();
    else if (strcmp(what, "put") == 0) put();
    else if (strcmp(what, "set") == 0) set();
    else if (strcmp(what, "hold") == 0) hold();
    else if (strcmp(what, "bench") == 0) bench();
    else return 2;
    fflush(stdout);
  }
  return 0;
}
