// The Go side: decides by a script, and answers look-ups as it is told.
#include <time.h>

#include "host.h"

// The bits by which a decision says that its hiding will fail, as after a fault.
#define HIDING_FAILS 2

go_answers go_mode;
atomic_int go_programs, go_sources, go_given_up;

typedef struct question {
  front_lookup *lookup;
  bool deadline;
  uint32_t name;
  struct question *next;
} question;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static question *open_questions;
static uint32_t names;

bool meshgateInit(uint32_t concurrency) { return true; }

front_config *meshgateConfigNew(char *config, size_t len) {
  uint8_t forwarding = len > 0 ? (uint8_t)(config[0] - '0') : FRONT_FORWARDING_NONE;
  return front_config_new((uint32_t)(atomic_fetch_add(&go_sources, 1) + 1), false, forwarding, forwarding != FRONT_FORWARDING_NONE);
}

void meshgateConfigDestroy(uint32_t source) { atomic_fetch_sub(&go_sources, 1); }

front_route *meshgateRouteNew(char *config, size_t len) {
  static const char names[] = HOST_CREDENTIAL "\0x-second";
  uint8_t content[FRONT_CONTENT];
  atomic_fetch_add(&go_programs, 1);
  for (size_t i = 0; i < FRONT_CONTENT; i++) content[i] = len > 0 ? (uint8_t)config[len - 1] : 0;
  return front_route_new(7, content, 7, 1, 2, 0, len > 0 && config[0] == 'b', true, names, sizeof(names));
}

void meshgateRouteDestroy(uint32_t program) {
  CHECK(program == 7, "program %u", program);
  atomic_fetch_sub(&go_programs, 1);
}

static front_span put(front_result *r, size_t *at, const char *text) {
  size_t n = strlen(text);
  memcpy(r->buffer + *at, text, n);
  front_span s = {(uint32_t)*at, (uint32_t)n};
  *at += n;
  return s;
}

static void refuse(front_result *r) {
  size_t at = 0;
  r->details = put(r, &at, "meshgate_refused");
  r->body = put(r, &at, "{\"error\":\"invalid_token\"}");
  r->grpc_message = put(r, &at, "no");
  r->names[0] = put(r, &at, "content-type");
  r->values[0] = put(r, &at, "application/json");
  r->pairs = 1;
  r->grpc_status = 16;
  r->status = 401;
}

static void need_lookup(const front_request *q, front_result *r) {
  size_t at = 0;
  r->plugin = put(r, &at, "plugin-1");
  memset(r->hash, q->answered + 1, sizeof(r->hash));
  r->action = FRONT_LOOKUP;
}

// Every answer must still be readable, and be the one that was asked for.
static void read_answers(const front_request *q) {
  for (size_t i = 0; i < q->answered; i++) {
    const front_answer *a = &q->answers[i];
    unsigned sum = 0;
    for (size_t j = 0; j < FRONT_HASH; j++) sum += a->hash[j];
    for (size_t j = 0; j < a->packed_len; j++) sum += (unsigned char)a->packed[j];
    CHECK(sum > 0 && a->hash[0] == q->answered - i, "answer %zu", i);
  }
}

// Lets a request go on: n as it is, the others without what they say of tokens.
static void pass(const front_request *q, front_result *r, char how) {
  r->action = how == 'i' ? FRONT_ISSUE : FRONT_CONTINUE;
  r->remove = 1;
  if (how != 'n') {
    r->hide_query = how == 'f' ? HIDING_FAILS : 1;
    r->hide_body = q->body_state == FRONT_BODY_READ && q->body.len > 0;
  }
  memcpy(r->buffer, r->hide_body ? HOST_HIDDEN : "identity", 8);
  if (how != 'i') r->identity[1] = (front_span){0, 8};
  r->plugin = (front_span){0, 8};
}

// ---- what is proven ----

static struct front_page page;
// Of each token: its newest revocation, and the newest that is over.
static atomic_uint truth[TOKENS], over[TOKENS];

static int64_t nanoseconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

void go_lease(void) {
  static int64_t granted;
  atomic_store(&page.apart, nanoseconds(CLOCK_REALTIME) - nanoseconds(CLOCK_MONOTONIC));
  // An end never comes twice.
  atomic_store(&page.lease_end, nanoseconds(CLOCK_MONOTONIC) + 3600000000000LL + ++granted);
}

unsigned go_revoked(unsigned token) { return atomic_load(&over[token]); }

// The slots of a token: its own, that of one of two credentials, and that of the consumer.
static uint32_t slot_of(unsigned token, size_t i) {
  return i == 0 ? token : i == 1 ? TOKENS + token % 2 : TOKENS + 2;
}

void go_revoke(unsigned salt) {
  static unsigned n;
  static bool unleased;
  unsigned token = salt / 5 % TOKENS, what = salt % 5;
  bool concerned[TOKENS];
  n++;
  if (unleased) {  // a filter that starts anew does so before its next lease
    atomic_fetch_add(&page.generation, 1);
    go_lease();
  }
  unleased = what > FRONT_OWNERS;
  for (unsigned t = 0; t < TOKENS; t++) {
    concerned[t] = what > 1 || t == token || (what == 1 && t % 2 == token % 2);
    if (concerned[t]) atomic_store(&truth[t], n);
  }
  if (what < FRONT_OWNERS) atomic_fetch_add(&page.slots[slot_of(token, what)], 1);
  if (what == FRONT_OWNERS) atomic_fetch_add(&page.generation, 1);
  if (unleased) atomic_store(&page.lease_end, 0);
  for (unsigned t = 0; t < TOKENS; t++)
    if (concerned[t]) atomic_store(&over[t], n);
}

// Lets a request go on by its token, and proves that if it is asked to.
static void pass_proven(const front_request *q, front_result *r) {
  unsigned token = TOKENS;
  char text[32];
  CHECK((q->present & 1) != 0 && q->values[0].len < sizeof(text), "no token");
  memcpy(text, q->values[0].ptr, q->values[0].len);
  text[q->values[0].len] = 0;
  CHECK(sscanf(text, "Bearer %u", &token) == 1 && token < TOKENS, "the token %s", text);
  if (q->prove) {
    r->proof = (front_proof){.page = &page, .generation = atomic_load(&page.generation)};
    for (size_t i = 0; i < FRONT_OWNERS; i++) {
      r->proof.slots[i] = slot_of(token, i);
      r->proof.counts[i] = atomic_load(&page.slots[slot_of(token, i)]);
    }
  }
  size_t at = 0;
  snprintf(text, sizeof(text), "%u at %u", token, atomic_load(&truth[token]));
  r->identity[1] = put(r, &at, text);
  r->remove = 1;
  r->action = FRONT_CONTINUE;
}

bool meshgateFigures(uint64_t *out) {
  static atomic_ullong calls;
  unsigned long long n = atomic_fetch_add(&calls, 1);
  for (size_t i = 0; i < FRONT_FIGURES; i++) out[i] = n;
  return n % 7 != 0;
}

void meshgateDecide(front_request *q, front_result *r) {
  size_t lookups = 0;
  CHECK(q->program == 7 && q->path.len > 1, "program %u", q->program);
  read_answers(q);
  for (const char *p = q->path.ptr + 1; p < q->path.ptr + q->path.len; p++) {
    switch (*p) {
      case 'd':
        break;
      case 'l':
        if (lookups++ < q->answered) break;
        need_lookup(q, r);
        return;
      case 'h':
        if (q->headers == 2) break;
        r->action = FRONT_NEED_HEADERS;
        return;
      case 'b':
        if (q->body_state != FRONT_BODY_UNREAD) break;
        r->action = FRONT_NEED_BODY;
        return;
      case 'p':
      case 'n':
      case 'f':
      case 'i':
        pass(q, r, *p);
        return;
      case 'v':
        pass_proven(q, r);
        return;
      case 'r':
        refuse(r);
        return;
      default:
        return;
    }
  }
}

// Shortens path and body in place, as Go does.
bool meshgateRewrite(uint32_t program, uint16_t hide_query, uint16_t hide_body, front_text *type, front_text *path,
                     front_text *body) {
  CHECK(program == 7 && type->len > 0 && path->len > 0 && path->ptr[0] == '/', "path");
  char *query = memchr(path->ptr, '?', path->len);
  CHECK(query != NULL && hide_query > 0, "nothing to hide");
  path->len = (size_t)(query - path->ptr);
  if (hide_body > 0) {
    size_t n = strlen(HOST_TOKEN);
    CHECK(body->len >= n && memcmp(body->ptr, HOST_TOKEN, n) == 0, "a body of %zu bytes", body->len);
    body->len -= n;
    memmove((char *)body->ptr, body->ptr + n, body->len);
  }
  return hide_query != HIDING_FAILS;
}

void meshgateHandOver(uint32_t program, char *plugin, size_t len, bool secure, char *client, size_t client_len,
                      front_result *r) {
  size_t at = 0;
  CHECK(program == 7 && len == 8 && client_len > 0 && client[0] == '1', "hand-over");
  r->names[0] = put(r, &at, "x-meshgate-oauth");
  r->values[0] = put(r, &at, "plugin-1");
  r->pairs = 1;
}

static void finish(front_lookup *l, unsigned salt) {
  char packed[64];
  memset(packed, 1, sizeof(packed));
  front_lookup_finish(l, (uint8_t)(1 + salt % 3), packed, salt % 2 ? sizeof(packed) : 0);
}

static uint32_t open_question(front_lookup *l, bool deadline) {
  question *q = malloc(sizeof(*q));
  pthread_mutex_lock(&lock);
  uint32_t name = ++names;
  *q = (question){l, deadline, name, open_questions};
  open_questions = q;
  pthread_mutex_unlock(&lock);
  return name;
}

uint32_t meshgateResolve(uint32_t source, front_lookup *l, uint8_t *hash, char *plugin, size_t len) {
  CHECK(source > 0 && len == 8 && memcmp(plugin, "plugin-1", 8) == 0 && hash[0] > 0, "look-up");
  if (go_mode == ANSWER_AT_ONCE) {
    finish(l, hash[0]);
    return 0;
  }
  return open_question(l, false);
}

uint32_t meshgateAwait(front_lookup *l) { return open_question(l, true); }

// Takes a question out of the open ones.
static question *take(uint32_t name) {
  question **at = &open_questions;
  pthread_mutex_lock(&lock);
  while (*at != NULL && name != 0 && (*at)->name != name) at = &(*at)->next;
  question *q = *at;
  if (q != NULL) *at = q->next;
  pthread_mutex_unlock(&lock);
  return q;
}

void meshgateGiveUp(uint32_t pending) {
  CHECK(pending != 0, "nothing to give up");
  question *q = take(pending);
  if (q == NULL) return;
  front_lookup_finish(q->lookup, FRONT_ANSWER_UNAVAILABLE, NULL, 0);
  atomic_fetch_add(&go_given_up, 1);
  free(q);
}

bool go_answer(void) {
  static atomic_uint salt;
  question *q = take(0);
  if (q == NULL) return false;
  if (q->deadline) front_lookup_finish(q->lookup, FRONT_ANSWER_UNAVAILABLE, NULL, 0);
  else finish(q->lookup, atomic_fetch_add(&salt, 1));
  free(q);
  return true;
}

void go_drain(void) {
  while (go_answer()) {
  }
}
