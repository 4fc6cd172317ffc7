// Answers a repeated credential without entering Go. Each worker remembers verdicts of
// its own, so nothing here is shared but the page that says whether a verdict still
// holds; tokencache.Page and Proof describe that, engine.Verdict.Repeats what a verdict
// depends on.
//
// A verdict is found under a keyed hash of everything that it depends on: two requests
// that differ in any of it share one with a chance of 2^-128, which nobody can raise
// without the key.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // memmem
#endif
#include "repeat.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "siphash.h"

#ifndef GETTIME  // tests have clocks of their own
#define GETTIME clock_gettime
#endif

// Verdicts that a worker remembers, a power of two, in sets of four. Memory is taken as
// they come.
#define SETS 4096
#define WAYS 4
// Bytes of headers that a remembered verdict may have.
#define TEXT 312
// Most bytes that one is found by: nobody gets longer ones hashed for nothing.
#define LONGEST 8192
// A query of so many bytes always counts: of too many pairs Go reads none.
#define QUERY 1000
// How long one is used without Go, which counts what is used lately.
#define FRESH 60000000000LL  // ns
// A verdict ends this much before its token: the coarse clock of the day is late by a tick,
// and by more while the processor that keeps it is busy.
#define LATE 20000000LL  // ns
// How far the clocks may have moved apart since the lease; less than Go allows.
#define APART 50000000LL  // ns

typedef struct verdict {
  uint64_t key[2];  // 0, 0 is none
  front_proof proof;
  int64_t born;  // CLOCK_MONOTONIC, ns
  uint32_t remove;
  uint16_t lengths[FRONT_IDENTITY_HEADERS];
  uint16_t used;  // bytes of text
  char text[TEXT];
} verdict;

typedef struct memory {
  uint64_t secret[2];
  front_repeater *counter;
  verdict sets[SETS][WAYS];
} memory;

static pthread_key_t ends;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool begun;
static atomic_bool remembering;
static atomic_uint workers;
front_repeater meshgate_repeaters[FRONT_REPEATERS];

void front_repeat_begin(bool remember) { atomic_store(&remembering, remember); }

static void end(void *m) { munmap(m, sizeof(memory)); }

static void begin(void) { begun = pthread_key_create(&ends, end) == 0; }

// What this worker remembers; NULL without memory or chance. It is mapped and not allocated:
// allocators write zeros, and with that all of it would be in use at the first request.
static memory *mine(void) {
  static _Thread_local memory *m;
  static _Thread_local bool tried;
  if (tried) return m;
  tried = true;
  pthread_once(&once, begin);
  if (!begun) return NULL;
  void *p = mmap(NULL, sizeof(memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  m = p;
  m->counter = &meshgate_repeaters[atomic_fetch_add(&workers, 1) % FRONT_REPEATERS];
  if (getrandom(m->secret, sizeof(m->secret), 0) != sizeof(m->secret) || pthread_setspecific(ends, m) != 0) {
    end(m);
    m = NULL;
  }
  return m;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c; }

// Whether a text contains a name, whatever the case of its letters.
static bool mentions(front_text text, front_text name) {
  for (size_t at = 0; at + name.len <= text.len; at++) {
    size_t n = 0;
    while (n < name.len && lower(text.ptr[at + n]) == name.ptr[n]) n++;
    if (n == name.len) return true;
  }
  return false;
}

// Whether the program finds nothing in a query, see engine.Program.QueryNames. Which name
// is written with signs that must be decoded is for Go to say.
static bool says_nothing(const front_route *route, front_text query) {
  if (route->reads_queries || query.len >= QUERY) return false;
  if (memchr(query.ptr, '%', query.len) != NULL || memchr(query.ptr, '+', query.len) != NULL) return false;
  for (size_t i = 0; i < route->queries; i++)
    if (mentions(query, route->in_query[i])) return false;
  return true;
}

bool front_plain_path(const front_route *route, front_text path, front_text *query) {
  static const char endpoints[] = "/oauth2/", metadata[] = "/.well-known/";
  *query = (front_text){NULL, 0};
  const char *mark = path.len == 0 ? NULL : memchr(path.ptr, '?', path.len);
  if (mark != NULL) {
    front_text q = {mark + 1, (size_t)(path.ptr + path.len - mark - 1)};
    if (!says_nothing(route, q)) *query = q;
    path.len = (size_t)(mark - path.ptr);
  }
  if (path.len == 0) return false;
  if (path.len >= sizeof(metadata) - 1 && memcmp(path.ptr, metadata, sizeof(metadata) - 1) == 0) return false;
  return memmem(path.ptr, path.len, endpoints, sizeof(endpoints) - 1) == NULL;
}

// The key of a request. False if it is not of those that a remembered verdict may answer.
bool front_repeat_key(const front_route *route, const front_config *config, const front_request *q, front_key *key) {
  front_text query;
  if (!atomic_load_explicit(&remembering, memory_order_relaxed)) return false;
  if (route->id == 0 || q->answered > 0 || q->present == 0 || !front_plain_path(route, q->path, &query)) return false;
  size_t bytes = query.len;
  for (size_t i = 0; i < q->headers; i++)
    if (q->present >> i & 1) bytes += q->values[i].len;
  memory *m = bytes <= LONGEST ? mine() : NULL;
  if (m == NULL) return false;
  sip s;
  sip_begin(&s, m->secret);
  sip_word(&s, route->id);
  sip_word(&s, config->id);
  sip_word(&s, (uint64_t)q->present << 32 | q->repeated);
  sip_word(&s, (uint64_t)(query.ptr != NULL) << 1 | q->http2);
  if (query.ptr != NULL) {
    sip_word(&s, query.len);
    sip_bytes(&s, query.ptr, query.len);
  }
  for (size_t i = 0; i < q->headers; i++) {
    if ((q->present >> i & 1) == 0) continue;
    sip_word(&s, q->values[i].len);
    sip_bytes(&s, q->values[i].ptr, q->values[i].len);
  }
  sip_end(&s, key->word);
  return (key->word[0] | key->word[1]) != 0;
}

static int64_t now_of(clockid_t clock) {
  struct timespec t;
  GETTIME(clock, &t);
  return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

// Whether memory may answer, and what was proven still holds.
static bool holds(const front_proof *p, int64_t born) {
  const front_page *page = p->page;
  int64_t end = atomic_load_explicit(&page->lease_end, memory_order_acquire);
  int64_t apart = atomic_load_explicit(&page->apart, memory_order_acquire);
  // The lease is judged by a clock that is never late: a machine that was stopped may run a
  // worker before it has brought the coarse clocks up to date. Those then lie behind, which
  // looks like a clock that was set.
  int64_t mono = now_of(CLOCK_MONOTONIC), wall = now_of(CLOCK_REALTIME_COARSE);
  if (mono >= end || mono - born >= FRESH) return false;
  int64_t moved = wall - mono - apart;
  if (moved > APART || moved < -APART) return false;
  if (moved < 0) wall = mono + apart;
  if (p->end != 0 && (wall + LATE) / 1000000 >= p->end) return false;
  if (atomic_load_explicit(&page->generation, memory_order_acquire) != p->generation) return false;
  for (size_t i = 0; i < FRONT_OWNERS; i++)
    if (atomic_load_explicit(&page->slots[p->slots[i]], memory_order_acquire) != p->counts[i]) return false;
  // The lease and its clocks are of one writing: an end never comes twice.
  return atomic_load_explicit(&page->lease_end, memory_order_acquire) == end;
}

static verdict *at(memory *m, const front_key *key, size_t way) { return &m->sets[key->word[0] & (SETS - 1)][way]; }

uint64_t front_repeats(void) {
  uint64_t n = 0;
  for (size_t i = 0; i < FRONT_REPEATERS; i++) n += atomic_load_explicit(&meshgate_repeaters[i].found, memory_order_relaxed);
  return n;
}

bool front_repeat_find(const front_key *key, front_result *r) {
  memory *m = mine();
  for (size_t i = 0; i < WAYS; i++) {
    verdict *v = at(m, key, i);
    if (v->key[0] != key->word[0] || v->key[1] != key->word[1]) continue;
    if (!holds(&v->proof, v->born)) return false;
    memcpy(r->buffer, v->text, v->used);
    uint32_t off = 0;
    for (size_t h = 0; h < FRONT_IDENTITY_HEADERS; h++) {
      r->identity[h] = (front_span){off, v->lengths[h]};
      off += v->lengths[h];
    }
    r->remove = v->remove;
    r->action = FRONT_CONTINUE;
    atomic_fetch_add_explicit(&m->counter->found, 1, memory_order_relaxed);
    return true;
  }
  return false;
}

// The verdict that makes room: the one of this key, one without, or the oldest.
static verdict *place(memory *m, const front_key *key) {
  verdict *oldest = at(m, key, 0);
  for (size_t i = 0; i < WAYS; i++) {
    verdict *v = at(m, key, i);
    if (v->key[0] == key->word[0] && v->key[1] == key->word[1]) return v;
    if (v->born < oldest->born) oldest = v;
  }
  return oldest;
}

void front_repeat_keep(const front_key *key, const front_result *r) {
  memory *m = mine();
  if (r->action != FRONT_CONTINUE || r->proof.page == NULL || r->hide_query != 0 || r->hide_body != 0) return;
  size_t used = 0;
  for (size_t h = 0; h < FRONT_IDENTITY_HEADERS; h++) used += r->identity[h].len;
  if (used > TEXT) return;
  verdict *v = place(m, key);
  v->used = 0;
  for (size_t h = 0; h < FRONT_IDENTITY_HEADERS; h++) {
    front_span s = r->identity[h];
    memcpy(v->text + v->used, r->buffer + s.off, s.len);
    v->lengths[h] = (uint16_t)s.len;
    v->used = (uint16_t)(v->used + s.len);
  }
  v->remove = r->remove;
  v->proof = r->proof;
  v->born = now_of(CLOCK_MONOTONIC);
  memcpy(v->key, key->word, sizeof(v->key));
}
