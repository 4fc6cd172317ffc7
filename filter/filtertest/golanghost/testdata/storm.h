// A storm: every worker has many requests of all kinds in flight, lets a random one take a
// step or go, and changes tokens and configurations under them. What comes of each request
// is judged: a request of a token that did not change meanwhile has one right outcome.
#ifndef STORM_H
#define STORM_H

#include <sched.h>

#include "host.h"
#include "text.h"
#include "worker.h"

#define TOKENS 64     // of testdata/storm
#define IN_FLIGHT 24  // requests of a worker
#define PATIENCE 4.0  // seconds after which a deadline of the library may have ended a request

enum kind { HEADER_TOKEN, STRANGER, BODY_TOKEN, BODY_WITHOUT, NOTHING, TOKEN_AND_BODY, GRPC_TOKEN, OPEN_ROUTE, BROKEN_ROUTE, EARLY_REPLY, KINDS };

typedef struct {
  stream *s;
  enum kind kind;
  int token;
  long turn; // of the token, when the request began
  double began;
} guest;

// A token is good in turn 0, 4 and so on, revoked in 2, 6 and so on, and about to change in
// the odd ones.
static atomic_long turns[TOKENS];
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

// The configurations of routes: with a chain, with one for gRPC, without one, and one that
// cannot be read.
enum { CHECKED, SPEAKING, UNCHECKED, BROKEN, ROUTES };
static pthread_rwlock_t swapping = PTHREAD_RWLOCK_INITIALIZER;
static struct {
  text listener, route[ROUTES];
  uint64_t at[ROUTES], outer[ROUTES], inner[ROUTES];
} routes;

static atomic_int over;
static atomic_long begun, passed, replied, cancelled, changed, swapped;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned random_below(unsigned *state, unsigned n) { return (unsigned)rand_r(state) % n; }

static void fail(const guest *g, const char *what) {
  fprintf(stderr, "storm: %s: kind %d, token %d, turn %ld then and %ld now, %.3f s old, replied %d status %d, passed %d, outcomes %d, state %d\n", what, (int)g->kind,
          g->token, g->turn, g->token < 0 ? 0 : atomic_load(&turns[g->token]), seconds() - g->began, g->s->replied, (int)g->s->reply.status, g->s->passed,
          g->s->outcomes, g->s->state.state);
  abort();
}

// ---- changes ----

static void change_token(unsigned *rng) {
  int i = (int)random_below(rng, TOKENS);
  if (random_below(rng, 3) == 0) {
    storm_forget(i);
    return;
  }
  pthread_mutex_lock(&changing);
  long turn = atomic_fetch_add(&turns[i], 1) + 1;
  storm_set(i, turn % 4 == 3);
  atomic_fetch_add(&turns[i], 1);
  pthread_mutex_unlock(&changing);
  atomic_fetch_add(&changed, 1);
}

// Makes the configuration of a route, with a listener of its own. Its parts are destroyed
// with it: a request that has begun by then is decided by it all the same.
static void make_route(int i) {
  routes.outer[i] = read_config(0, &routes.listener);
  routes.inner[i] = read_config(1, &routes.route[i]);
  routes.at[i] = merged_config(routes.outer[i], routes.inner[i]);
}

static void change_route(unsigned *rng) {
  int i = (int)random_below(rng, ROUTES);
  pthread_rwlock_wrlock(&swapping);
  uint64_t old[] = {routes.at[i], routes.inner[i], routes.outer[i]};
  make_route(i);
  pthread_rwlock_unlock(&swapping);
  for (int j = 0; j < 3; j++) destroy_config(old[j], 0);
  atomic_fetch_add(&swapped, 1);
}

// ---- requests ----

static void add(headers *h, const char *name, const char *value) { headers_add(h, copy(name, strlen(name)), copy(value, strlen(value))); }

static text form(const guest *g, unsigned *rng) {
  static const size_t sizes[] = {0, 1, 30, PIECE + 1, 40000};
  char start[64] = "";
  if (g->kind == BODY_TOKEN) snprintf(start, sizeof(start), "access_token=t%d&", g->token);
  size_t n = strlen(start), filling = sizes[random_below(rng, 5)];
  text t = {malloc(n + 2 + filling + 1), n + 2 + filling};
  sprintf(t.p, "%sx=", start);
  memset(t.p + n + 2, 'a', filling);
  t.p[t.n] = 0;
  return t;
}

static int route_of(enum kind k) {
  if (k == GRPC_TOKEN) return SPEAKING;
  return k == OPEN_ROUTE ? UNCHECKED : k == BROKEN_ROUTE ? BROKEN : CHECKED;
}

static void prepare(guest *g, unsigned *rng) {
  static const size_t pieces[] = {1, 1000, PIECE};
  stream *s = g->s;
  char credential[64];
  int body = g->kind == BODY_TOKEN || g->kind == BODY_WITHOUT || g->kind == TOKEN_AND_BODY;
  s->protocol = (int)random_below(rng, PROTOCOLS);
  s->connection = 1 + (long)random_below(rng, 64);
  add(&s->headers, ":path", "/");
  add(&s->headers, ":method", body ? "POST" : "GET");
  add(&s->headers, ":scheme", "http");
  add(&s->headers, ":authority", "host");
  add(&s->headers, "x-consumer-id", "root");
  if (g->kind == STRANGER)
    snprintf(credential, sizeof(credential), "Bearer x%u", (unsigned)rand_r(rng));
  else
    snprintf(credential, sizeof(credential), "Bearer t%d", g->token);
  if (g->kind != BODY_TOKEN && g->kind != BODY_WITHOUT && g->kind != NOTHING) add(&s->headers, "authorization", credential);
  if (g->kind == GRPC_TOKEN) add(&s->headers, "content-type", "application/grpc");
  if (!body) return;
  s->has_body = 1;
  s->body = form(g, rng);
  s->piece = s->body.n > 100 ? PIECE : pieces[random_below(rng, 3)];
  add(&s->headers, "content-type", "application/x-www-form-urlencoded");
  if (random_below(rng, 2) == 0) return;
  s->has_trailers = 1;
  add(&s->trailers, "x-consumer-id", "root");
  add(&s->trailers, "x-other", "1");
}

static void begin_guest(worker *w, guest *g, unsigned *rng) {
  *g = (guest){.s = new_stream(w), .kind = (enum kind)random_below(rng, KINDS), .token = (int)random_below(rng, TOKENS), .began = seconds()};
  prepare(g, rng);
  atomic_fetch_add(&begun, 1);
  pthread_rwlock_rdlock(&swapping);
  g->s->request.configId = routes.at[route_of(g->kind)];
  g->turn = atomic_load(&turns[g->token]);
  if (random_below(rng, 8) == 0) log_of(g->s, LOG_DOWNSTREAM_START);
  // Another filter answers before this one has seen the request.
  if (g->kind == EARLY_REPLY) {
    g->s->over = g->s->replied = 1;
    g->s->outcomes++;
    respond(g->s);
  } else {
    decode_headers(g->s);
  }
  pthread_rwlock_unlock(&swapping);
}

// ---- the judge ----

static const char *value_of(headers *h, const char *name) {
  header *f = headers_find(h, name, strlen(name));
  return f == NULL ? "" : f->value.p;
}

static void judge_passed(const guest *g) {
  stream *s = g->s;
  char want[32] = "";
  if (g->kind != OPEN_ROUTE) snprintf(want, sizeof(want), "consumer-%d", g->token);
  if (strcmp(value_of(&s->headers, "x-consumer-id"), want) != 0) fail(g, "another consumer");
  if (g->kind != OPEN_ROUTE && *value_of(&s->headers, "authorization") != 0) fail(g, "the credential goes on");
  if (*value_of(&s->trailers, "x-consumer-id") != 0) fail(g, "a trailer says who it is");
  if (s->has_trailers && *value_of(&s->trailers, "x-other") == 0) fail(g, "a trailer is lost");
  size_t from = g->kind == BODY_TOKEN ? (size_t)(strchr(s->body.p, '&') + 1 - s->body.p) : 0;
  if (s->has_body && (s->out.n != s->body.n - from || memcmp(s->out.p, s->body.p + from, s->out.n) != 0)) fail(g, "another body goes on");
}

static void judge(const guest *g) {
  stream *s = g->s;
  if (s->outcomes != 1 || s->passed == s->replied) fail(g, "not one outcome");
  if (s->passed) judge_passed(g);
  atomic_fetch_add(s->passed ? &passed : &replied, 1);
  int status = s->replied ? (int)s->reply.status : 200, want = 401;
  if (g->kind == EARLY_REPLY) return;
  if (g->kind == OPEN_ROUTE) want = 200;
  if (g->kind == BROKEN_ROUTE) want = 503;
  int old = g->kind == GRPC_TOKEN && s->protocol < HTTP2;
  if (old) want = 426;
  if (g->kind == HEADER_TOKEN || g->kind == BODY_TOKEN || g->kind == TOKEN_AND_BODY || (g->kind == GRPC_TOKEN && !old)) {
    if (g->turn % 2 != 0 || atomic_load(&turns[g->token]) != g->turn) {
      if (status == 200 || status == 401) return; // it changed meanwhile
    } else if (g->turn % 4 == 0) {
      want = 200;
    }
  }
  if ((status == 408 || status == 503) && seconds() - g->began > PATIENCE) return;
  if (status != want) fail(g, status == 200 ? "accepted" : "not what it should come to");
}

// ---- workers ----

static void end_guest(guest *g) {
  if (g->s->over) {
    judge(g);
    if (g->kind != EARLY_REPLY) respond(g->s);
  } else {
    atomic_fetch_add(&cancelled, 1);
  }
  end(g->s, g->s->over ? 0 : 1);
  g->s = NULL;
}

// What others have asked of the worker.
static int take_event(worker *w, int patience) {
  event *e = take(w, patience);
  if (e == NULL) return 0;
  carry_out(e);
  return 1;
}

static void step(worker *w, guest *guests, unsigned *rng) {
  guest *g = &guests[random_below(rng, IN_FLIGHT)];
  if (random_below(rng, 40) == 0) change_token(rng);
  if (random_below(rng, 4000) == 0) change_route(rng);
  if (g->s == NULL) {
    begin_guest(w, g, rng);
  } else if (random_below(rng, 50) == 0) {
    log_of(g->s, LOG_DOWNSTREAM_PERIODIC);
  } else if (!g->s->over && random_below(rng, 12) == 0) {
    end_guest(g);
    return;
  } else if (!arrive_once(g->s) && !take_event(w, 0)) {
    sched_yield();
  }
  if (g->s->over) end_guest(g);
}

static void *storm_worker(void *p) {
  worker *w = p;
  unsigned rng = w->seed;
  guest guests[IN_FLIGHT] = {0};
  while (!atomic_load(&over)) step(w, guests, &rng);
  for (int i = 0; i < IN_FLIGHT; i++) {
    guest *g = &guests[i];
    if (g->s == NULL) continue;
    while (!g->s->over) {
      if (!arrive_once(g->s) && !take_event(w, 60)) fail(g, "it waits for ever");
    }
    end_guest(g);
  }
  return NULL;
}

// storm SECONDS SEED LISTENER CHECKED SPEAKING UNCHECKED BROKEN: lets it rage, and tells what there was.
static void storm(void) {
  long time = number();
  unsigned seed = (unsigned)number();
  routes.listener = unhex(word());
  for (int i = 0; i < ROUTES; i++) routes.route[i] = unhex(word());
  for (int i = 0; i < ROUTES; i++) make_route(i);
  atomic_store(&over, 0);
  // The thread that reads the script is the worker of the script.
  for (int i = 1; i < WORKERS; i++) {
    workers[i].seed = seed + (unsigned)i;
    pthread_create(&workers[i].thread, NULL, storm_worker, &workers[i]);
  }
  struct timespec t = {time, 0};
  nanosleep(&t, NULL);
  atomic_store(&over, 1);
  for (int i = 1; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < ROUTES; i++) {
    destroy_config(routes.at[i], 0);
    destroy_config(routes.inner[i], 0);
    destroy_config(routes.outer[i], 0);
    free(routes.route[i].p);
  }
  free(routes.listener.p);
  for (int i = 0; i < TOKENS; i++) {
    storm_set(i, 1);
    atomic_store(&turns[i], 0);
  }
  printf("storm %ld %ld %ld %ld %ld %ld %ld\n", begun, passed, replied, cancelled, changed, swapped, at_once);
}

// What AddressSanitizer knows to be allocated; without it, what the library of C does.
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

// memory: has everything finalised, and tells how many streams were made and finalised, what
// C and Go have in use, and how many goroutines and token caches there are.
static void memory(void) {
  unsigned long long go[4] = {0};
  for (int i = 0; i < 20 && atomic_load(&made) != atomic_load(&finalised); i++) clean_up();
  clean_up();
  storm_go(go);
  size_t in_use = __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
  printf("memory %ld %ld %zu %llu %llu %llu %ld\n", made, finalised, in_use, go[1], go[2], go[3], at_once);
}

#endif
