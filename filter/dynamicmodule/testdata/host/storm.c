// Many workers and resolvers at once: streams come, wait, are reset, time out and
// are answered from other threads, while route tables and configurations go. Some are
// answered from memory, while their tokens are revoked.
#include <unistd.h>

#include "host.h"

#define WORKERS 3
#define RESOLVERS 3
#define AT_ONCE 24

static atomic_int left, working;

static unsigned roll(unsigned *seed) { return *seed = *seed * 1664525u + 1013904223u, *seed >> 8; }

typedef struct slot {
  host_link *link;
  int step;
} slot;

static const char *const mix[] = {"lr", "lr", "lp", "llr", "lbr", "blp", "p", "r", "li", "lz", "bp", "lbn", "lbf", "dn",
                                  "v",  "v",  "v",  "v",   "v",   "v"};

static void begin(slot *s, host_worker *w, front_config *config, dm_route_module route, char chain, unsigned *seed) {
  unsigned r = roll(seed);
  host_mode mode = {r & 1, r & 2, r & 4, r & 8, r & 32, chain};
  host_stream *n = stream_new(w, mode, config, route, mix[roll(seed) % (sizeof(mix) / sizeof(*mix))]);
  if (strchr(n->headers[0].value, 'v') != NULL) stream_token(n, roll(seed) % TOKENS);
  s->link = n->link;
  s->step = 0;
  atomic_fetch_add(&s->link->refs, 1);
  stream_headers(n, r & 16);
}

static void advance(slot *s, host_worker *w, unsigned *seed) {
  host_stream *n = s->link->stream;
  if (n == NULL) {
    if (atomic_fetch_sub(&s->link->refs, 1) == 1) free(s->link);
    s->link = NULL;
    return;
  }
  switch (s->step++ % 6) {
    case 0:
      stream_body(n, HOST_TOKEN, false);
      break;
    case 1:
      if (roll(seed) & 1) stream_trailers(n);
      else stream_body(n, HOST_REST, true);
      break;
    case 2:
      if (roll(seed) % 4 == 0) stream_timeout(n);
      break;
    case 3:
      if (roll(seed) % 2 == 0) stream_reset(n);
      break;
    case 4:
      if (n->passed) stream_reset(n);
      break;
    default:
      if (n->replied || s->step > 12) stream_reset(n);
  }
  worker_settle(w);
}

// One worker with its own tables, which it replaces while streams wait.
static void *work(void *arg) {
  unsigned seed = (unsigned)(size_t)arg;
  host_worker w;
  slot slots[AT_ONCE] = {{NULL, 0}};
  dm_envoy_buffer name = {"meshgate", 8}, none = {"", 0};
  const dm_envoy_buffer carried[] = {{"b", 1}, {"", 0}, {HOST_TABLE, strlen(HOST_TABLE)}, {HOST_PLAIN_TABLE, strlen(HOST_PLAIN_TABLE)}};
  static const char chains[] = {0, 0, 'a', 'b'};
  worker_init(&w);
  while (atomic_load(&left) > 0) {
    front_config *config = (front_config *)DM_ON(config_new)(NULL, name, none);
    for (int table = 0; table < 4; table++) {
      dm_route_module route = DM_ON(per_route_config_new)(name, carried[table]);
      for (int turn = 0; turn < 200; turn++) {
        slot *s = &slots[roll(&seed) % AT_ONCE];
        if (s->link != NULL) advance(s, &w, &seed);
        else if (atomic_fetch_sub(&left, 1) > 0) begin(s, &w, config, route, chains[table], &seed);
        worker_settle(&w);
        if (roll(&seed) % 3 == 0) worker_run(&w);
      }
      for (int i = 0; i < AT_ONCE; i++)
        if (slots[i].link != NULL && slots[i].link->stream != NULL) slots[i].link->stream->route = NULL;
      DM_ON(per_route_config_destroy)(route);
    }
    // A configuration goes after its streams, but not after their look-ups.
    for (int i = 0; i < AT_ONCE; i++)
      while (slots[i].link != NULL) {
        if (slots[i].link->stream != NULL) stream_reset(slots[i].link->stream);
        worker_settle(&w);
        advance(&slots[i], &w, &seed);
      }
    DM_ON(config_destroy)(config);
  }
  atomic_fetch_sub(&working, 1);
  while (worker_run(&w)) {
  }
  return NULL;
}

static void *resolve(void *arg) {
  unsigned seed = (unsigned)(size_t)arg;
  while (atomic_load(&working) > 0)
    if (!go_answer() || roll(&seed) % 8 == 0) usleep(roll(&seed) % 50);
  go_drain();
  return NULL;
}

static void *revoker(void *arg) {
  unsigned seed = (unsigned)(size_t)arg;
  go_lease();
  while (atomic_load(&working) > 0) {
    go_revoke(roll(&seed));
    usleep(roll(&seed) % 200);
  }
  return NULL;
}

void storm(int streams) {
  enum { THREADS = WORKERS + RESOLVERS + 1 };
  pthread_t t[THREADS];
  go_mode = ANSWER_ELSEWHERE;
  atomic_store(&left, streams);
  atomic_store(&working, WORKERS);
  for (int i = 0; i < THREADS; i++)
    pthread_create(&t[i], NULL, i < WORKERS ? work : i < WORKERS + RESOLVERS ? resolve : revoker, (void *)(size_t)(i + 1));
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}
