// Compiled by repeat_test.go. "paths" with names of parameters reads paths, each as four
// hexadecimal digits of its length and its bytes, and answers 1 for each that a remembered
// verdict may answer whatever its query, and 2 if the query counts.
// Without an argument it tries what makes verdicts void, and a revoker beside a worker.
#define _GNU_SOURCE
#include <time.h>

// By how much the coarse clocks are late.
static _Atomic long long late;

static int gettime(clockid_t clock, struct timespec *t) {
  clockid_t exact = clock == CLOCK_REALTIME_COARSE ? CLOCK_REALTIME : clock;
  int rc = clock_gettime(exact, t);
  long long ns = (long long)t->tv_sec * 1000000000LL + t->tv_nsec - (clock == exact ? 0 : late);
  t->tv_sec = ns / 1000000000LL;
  t->tv_nsec = ns % 1000000000LL;
  return rc;
}

#define GETTIME gettime
#include "../repeat.c"

#include <stdio.h>

#define CHECK(condition)                                               \
  do {                                                                 \
    if (condition) break;                                              \
    fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
    abort();                                                           \
  } while (0)

static struct front_page page;
static front_route route = {.id = 1, .early = 1, .headers = 2};
static front_config config = {.id = 1};
static atomic_ullong hits;  // of all threads

static front_request request(const char *path, const char *token) {
  front_request q = {.path = {path, strlen(path)}, .present = 1, .headers = 1};
  q.values[0] = (front_text){token, strlen(token)};
  return q;
}

static front_result verdict_of(const char *consumer) {
  static front_result r;
  memset(&r, 0, offsetof(front_result, buffer));
  r.action = FRONT_CONTINUE;
  r.remove = 1;
  strcpy(r.buffer, "-");
  strcpy(r.buffer + 1, consumer);
  r.identity[2] = (front_span){1, (uint32_t)strlen(consumer)};
  r.proof = (front_proof){.page = &page, .generation = page.generation, .slots = {5, 6, 7}};
  for (int i = 0; i < FRONT_OWNERS; i++) r.proof.counts[i] = page.slots[r.proof.slots[i]];
  return r;
}

static void grant(void) {
  page.lease_end = now_of(CLOCK_MONOTONIC) + 3600000000000LL;
  page.apart = now_of(CLOCK_REALTIME) - now_of(CLOCK_MONOTONIC);
}

static bool finds(front_request q, const char *consumer) {
  static front_result r;
  front_key key;
  if (!front_repeat_key(&route, &config, &q, &key)) return false;
  memset(&r, 0, offsetof(front_result, buffer));
  if (!front_repeat_find(&key, &r)) return false;
  hits++;
  CHECK(r.action == FRONT_CONTINUE && r.remove == 1 && r.identity[2].len == strlen(consumer) && r.identity[0].len == 0);
  CHECK(memcmp(r.buffer + r.identity[2].off, consumer, strlen(consumer)) == 0);
  return true;
}

static void keep(front_request q, front_result r) {
  front_key key;
  CHECK(front_repeat_key(&route, &config, &q, &key));
  front_repeat_keep(&key, &r);
}

// Keeps a verdict with one difference and looks for it, and for the sound one.
#define VOID(change)                                    \
  do {                                                  \
    front_result r = verdict_of("jo");                  \
    grant();                                            \
    keep(request("/a", "t"), r);                        \
    CHECK(finds(request("/a", "t"), "jo"));             \
    change;                                             \
    CHECK(!finds(request("/a", "t"), "jo"));            \
    grant();                                            \
  } while (0)

static void voids(void) {
  grant();
  CHECK(!finds(request("/a", "t"), "jo"));
  VOID(page.generation++);
  for (int i = 0; i < FRONT_OWNERS; i++) VOID(page.slots[5 + i]++);
  VOID(page.lease_end = 0);
  VOID(page.lease_end = now_of(CLOCK_MONOTONIC));
  VOID(page.apart += APART + 1000000000LL);
  VOID(page.apart -= APART + 1000000000LL);
  int64_t ms = now_of(CLOCK_REALTIME_COARSE) / 1000000;
  VOID((r.proof.end = ms + 5, keep(request("/a", "t"), r)));
  // Clocks that are late: the lease and the token end all the same.
  VOID(late = 6000000000LL; page.lease_end = now_of(CLOCK_MONOTONIC) - 1);
  late = 0;
  VOID(late = 6000000000LL);
  late = 40000000LL;
  VOID((r.proof.end = now_of(CLOCK_REALTIME) / 1000000 + 10, keep(request("/a", "t"), r)));
  front_result r = verdict_of("jo");
  grant();
  keep(request("/a", "t"), r);
  CHECK(finds(request("/a", "t"), "jo"));
  late = 0;
  front_key key;
  front_request q = request("/a", "t");
  CHECK(front_repeat_key(&route, &config, &q, &key));
  VOID(place(mine(), &key)->born -= FRESH);
}

// What a verdict depends on tells requests apart, and the path does not.
static void differences(void) {
  front_request q = request("/a", "tok");
  grant();
  keep(q, verdict_of("jo"));
  CHECK(finds(request("/b/c", "tok"), "jo"));
  CHECK(finds(request("/a?b", "tok"), "jo"));
  CHECK(!finds(request("/a/oauth2/token?b", "tok"), "jo"));
  CHECK(!finds(request("?", "tok"), "jo") && !finds(request("", "tok"), "jo"));
  CHECK(!finds(request("/a/oauth2/token", "tok"), "jo"));
  CHECK(!finds(request("/.well-known/oauth-authorization-server", "tok"), "jo"));
  CHECK(!finds(request("/a", "toK"), "jo") && !finds(request("/a", "to"), "jo"));
  q.repeated = 1;
  CHECK(!finds(q, "jo"));
  q = request("/a", "tok");
  q.http2 = true;
  CHECK(!finds(q, "jo"));
  q = request("/a", "tok");
  q.answered = 1;
  CHECK(!finds(q, "jo"));
  q = request("/a", "tok");
  q.present = 0;
  CHECK(!finds(q, "jo"));
  // One header more, also an empty one; and what moves from one to the next.
  q = request("/a", "tok");
  q.headers = 2, q.present = 3, q.values[1] = (front_text){"", 0};
  CHECK(!finds(q, "jo"));
  keep(q, verdict_of("mo"));
  CHECK(finds(q, "mo"));
  q.values[0] = (front_text){"to", 2}, q.values[1] = (front_text){"k", 1};
  CHECK(!finds(q, "mo"));
  route.id = 2;
  CHECK(!finds(request("/a", "tok"), "jo"));
  route.id = 0;
  CHECK(!finds(request("/a", "tok"), "jo"));
  route.id = 1, config.id = 2;
  CHECK(!finds(request("/a", "tok"), "jo"));
  config.id = 1;
  CHECK(finds(request("/a", "tok"), "jo"));
}

// Queries in which the program may find something tell requests apart, and others do not.
static void queries(void) {
  static char many[QUERY + 4] = "/q?";
  memset(many + 3, 'a', QUERY);
  char shorter[QUERY + 3];
  memcpy(shorter, many, QUERY + 2);
  shorter[QUERY + 2] = 0;
  const char *counts[] = {"/q?key=1", "/q?KeY=1", "/q?a=1&xkeyx=2", "/q?a=%31", "/q?a=1+2", many};
  const char *who[] = {"0", "1", "2", "3", "4", "5"};
  route.queries = 1;
  route.in_query[0] = (front_text)LITERAL("key");
  grant();
  keep(request("/q?a=1", "query"), verdict_of("jo"));
  CHECK(finds(request("/q", "query"), "jo") && finds(request("/r?b=2&ke&y", "query"), "jo") && finds(request("/q?", "query"), "jo"));
  CHECK(finds(request(shorter, "query"), "jo"));
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
    CHECK(!finds(request(counts[i], "query"), "jo"));
    keep(request(counts[i], "query"), verdict_of(who[i]));
    CHECK(finds(request(counts[i], "query"), who[i]));
  }
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) CHECK(finds(request(counts[i], "query"), who[i]));
  CHECK(finds(request("/q", "query"), "jo"));
  route.reads_queries = true;
  CHECK(!finds(request("/q?a=1", "query"), "jo"));
  route.reads_queries = false;
  route.queries = 0;
}

// What is not kept.
static void refusals(void) {
  static char text[TEXT + 2];
  grant();
  memset(text, 'x', TEXT);
  keep(request("/a", "full"), verdict_of(text));
  CHECK(finds(request("/a", "full"), text));
  text[TEXT] = 'x';
  keep(request("/a", "long"), verdict_of(text));
  CHECK(!finds(request("/a", "long"), text));
  front_result r = verdict_of("jo");
  r.action = FRONT_LOOKUP;
  keep(request("/a", "u"), r);
  r = verdict_of("jo");
  r.proof.page = NULL;
  keep(request("/a", "u"), r);
  r = verdict_of("jo");
  r.hide_query = 1;
  keep(request("/a", "u"), r);
  r = verdict_of("jo");
  r.hide_body = 1;
  keep(request("/a", "u"), r);
  CHECK(!finds(request("/a", "u"), "jo"));
}

// A header that is too long to be a credential.
static void longest(void) {
  static char text[LONGEST + 2];
  front_key key;
  memset(text, 'x', LONGEST);
  front_request q = request("/a", text);
  CHECK(front_repeat_key(&route, &config, &q, &key));
  text[LONGEST] = 'x';
  q = request("/a", text);
  CHECK(!front_repeat_key(&route, &config, &q, &key));
}

// Where nothing may be remembered there is no key.
static void forbidden(void) {
  front_key key;
  front_request q = request("/a", "forbidden");
  grant();
  front_repeat_begin(false);
  CHECK(!front_repeat_key(&route, &config, &q, &key));
  front_repeat_begin(true);
  CHECK(front_repeat_key(&route, &config, &q, &key));
}

static void crowd(void) {
  char token[24];
  int known = 0;
  grant();
  for (int i = 0; i < 2 * SETS * WAYS; i++) {
    snprintf(token, sizeof(token), "crowd-%d", i);
    keep(request("/a", token), verdict_of(token));
    CHECK(finds(request("/a", token), token));
  }
  for (int i = 0; i < 2 * SETS * WAYS; i++) {
    snprintf(token, sizeof(token), "crowd-%d", i);
    known += finds(request("/a", token), token);
  }
  CHECK(known > SETS * WAYS / 2 && known <= SETS * WAYS);
}

// A revocation is over when `acknowledged` says so; what is found afterwards must not be older.
static atomic_uint truth, acknowledged, over;

static void *revoke(void *unused) {
  int64_t lease = page.lease_end;
  for (unsigned n = 1; n <= 20000; n++) {
    atomic_store(&truth, n);
    if (n % 4 == 0) {
      // Without a lease nothing is found, whatever was proven; the next one is another.
      atomic_store(&page.lease_end, 0);
      atomic_store(&acknowledged, n);
      atomic_fetch_add(&page.generation, 1);
      atomic_store(&page.lease_end, lease + n);
      continue;
    }
    if (n % 3 == 0) {
      atomic_fetch_add(&page.generation, 1);
    } else {
      atomic_fetch_add(&page.slots[5 + n % 3], 1);
    }
    atomic_store(&acknowledged, n);
  }
  atomic_store(&over, 1);
  return unused;
}

static void *ask(void *unused) {
  char consumer[16];
  front_request q = request("/a", "storm");
  front_key key;
  front_result *r = calloc(1, sizeof(*r));
  unsigned mine = 0;
  CHECK(front_repeat_key(&route, &config, &q, &key));
  do {
    unsigned since = atomic_load(&acknowledged), n;
    memset(r, 0, offsetof(front_result, buffer));
    if (front_repeat_find(&key, r)) {
      r->buffer[r->identity[2].off + r->identity[2].len] = 0;
      CHECK(sscanf(r->buffer + r->identity[2].off, "%u", &n) == 1 && n >= since);
      mine++;
      continue;
    }
    front_result v;
    memset(&v, 0, offsetof(front_result, buffer));
    v.action = FRONT_CONTINUE;
    v.proof = (front_proof){.page = &page, .generation = atomic_load(&page.generation), .slots = {5, 6, 7}};
    for (int i = 0; i < FRONT_OWNERS; i++) v.proof.counts[i] = atomic_load(&page.slots[v.proof.slots[i]]);
    snprintf(consumer, sizeof(consumer), "%u", atomic_load(&truth));
    strcpy(v.buffer, consumer);
    v.identity[2] = (front_span){0, (uint32_t)strlen(consumer)};
    front_repeat_keep(&key, &v);
  } while (!atomic_load(&over) || mine == 0);
  hits += mine;
  free(r);
  return unused;
}

static void storm(void) {
  pthread_t threads[4];
  grant();
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, i == 0 ? revoke : ask, NULL) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(front_repeats() == hits);
}

// The test vectors of the authors: the key 00..0f, the messages "" and 00..07.
static void vectors(void) {
  static const unsigned char empty[] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
  static const unsigned char eight[] = {0x3b, 0x62, 0xa9, 0xba, 0x62, 0x58, 0xf5, 0x61, 0x0f, 0x83, 0xe2, 0x64, 0xf3, 0x14, 0x97, 0xb4};
  unsigned char bytes[16];
  uint64_t key[2], out[2];
  for (int i = 0; i < 16; i++) bytes[i] = (unsigned char)i;
  memcpy(key, bytes, sizeof(key));
  sip s;
  sip_begin(&s, key);
  sip_end(&s, out);
  CHECK(memcmp(out, empty, sizeof(out)) == 0);
  sip_begin(&s, key);
  sip_bytes(&s, (char *)bytes, 8);
  sip_end(&s, out);
  CHECK(memcmp(out, eight, sizeof(out)) == 0);
}

static int paths(int names, char **name) {
  static char path[1 << 16];
  unsigned len;
  front_text query;
  for (int i = 0; i < names; i++) route.in_query[route.queries++] = (front_text){name[i], strlen(name[i])};
  while (scanf("%4x", &len) == 1 && len < sizeof(path)) {
    if (fread(path, 1, len, stdin) != len) return 1;
    putchar(!front_plain_path(&route, (front_text){path, len}, &query) ? '0' : query.ptr == NULL ? '1' : '2');
  }
  return ferror(stdin) || ferror(stdout);
}

int main(int argc, char **argv) {
  if (argc > 1) return paths(argc - 2, argv + 2);
  front_request q = request("/a", "t");
  front_key key;
  CHECK(!front_repeat_key(&route, &config, &q, &key));  // nobody has said that it may
  front_repeat_begin(true);
  vectors();
  forbidden();
  voids();
  differences();
  queries();
  refusals();
  longest();
  crowd();
  storm();
  puts("ok");
  return 0;
}
