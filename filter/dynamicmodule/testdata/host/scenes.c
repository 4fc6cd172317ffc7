// One worker, step by step: every script, cut off before every step.
#include "host.h"

static const char *const scripts[] = {"p",   "r",   "i",   "z",   "hp",  "hr",   "lp",   "lr",   "li",    "lz",
                                      "llp", "llr", "lhp", "bp",  "br",  "lbr",  "lbp",  "blr",  "blp",   "bli",
                                      "lbi", "hlr", "lllr", "llllp", "lllllp", "lblblr", "n",    "ln",   "bn",    "f",    "lf",   "bf",   "blf", "dn",   "dr",  "dln"};

// The steps of a request. What comes after a cut still comes: late.
enum { HEADERS_COME, BODY_COMES, REST_COMES, ANSWER_COMES, EVENT_RUNS, SECOND_ANSWER, REST_RUNS, STEPS };
// What may come in between.
enum { NOTHING, CLIENT_RESETS, TIME_IS_UP, TABLE_GOES, CUTS };
// How the request ends.
enum { BARE, WITH_BODY, WITH_TRAILERS, ENDS };

typedef struct scene {
  const char *script;
  host_mode mode;
  int ending, cut, at;
  bool body_after_lookup;
} scene;

// NULL carries nothing.
static dm_route_module carry(const char *text) {
  if (text == NULL) return NULL;
  dm_envoy_buffer name = {"meshgate", 8}, config = {text, strlen(text)};
  return DM_ON(per_route_config_new)(name, config);
}

static dm_route_module new_route(const scene *c) {
  if (c->mode.chain != 0) return carry(HOST_TABLE);
  return carry(c->body_after_lookup ? "b" : "");
}

static void step(host_stream *s, const scene *c, int n) {
  switch (n) {
    case HEADERS_COME:
      stream_headers(s, c->ending == BARE);
      break;
    case BODY_COMES:
      if (c->ending != BARE) stream_body(s, HOST_TOKEN, false);
      break;
    case REST_COMES:
      if (c->ending == WITH_BODY) stream_body(s, HOST_REST, true);
      if (c->ending == WITH_TRAILERS) stream_trailers(s);
      break;
    default:
      break;
  }
}

static void play(const scene *c) {
  host_worker w;
  worker_init(&w);
  static unsigned plays;
  const char forwarding[] = {(char)('0' + plays++ % 3)};
  dm_envoy_buffer name = {"meshgate", 8}, text = {forwarding, 1};
  front_config *config = (front_config *)DM_ON(config_new)(NULL, name, text);
  dm_route_module route = new_route(c);
  host_stream *s = stream_new(&w, c->mode, config, route, c->script);
  host_link *link = s->link;
  atomic_fetch_add(&link->refs, 1);
#define STREAM (link->stream)
  for (int n = 0; n < STEPS; n++) {
    if (n == c->at && STREAM != NULL) {
      if (c->cut == CLIENT_RESETS) stream_reset(STREAM);
      if (c->cut == TIME_IS_UP && n > 0) stream_timeout(STREAM);
      worker_settle(&w);
    }
    if (n == c->at && n > 0 && c->cut == TABLE_GOES) {
      if (STREAM != NULL) {
        STREAM->route = NULL;
        STREAM->nowhere = false;
      }
      DM_ON(per_route_config_destroy)(route);
      route = NULL;
    }
    if (STREAM != NULL) step(STREAM, c, n);
    worker_settle(&w);
    if (n == ANSWER_COMES || n == SECOND_ANSWER) go_answer();
    if (n == EVENT_RUNS) worker_run(&w);
  }
  for (int i = 0; i < 8; i++) {
    go_drain();
    while (worker_run(&w)) {
    }
  }
  if (STREAM != NULL) {
    // Whatever it waited for is freed, not kept for as long as it lives.
    CHECK(meshgate_counters.lookups_created == meshgate_counters.lookups_freed, "%s: keeps a look-up", c->script);
    CHECK(!STREAM->passed || strchr(c->script, 'i') == NULL || STREAM->oauth_selected, "%s: handed to a workload", c->script);
    CHECK(STREAM->passed || STREAM->replied || c->ending != BARE, "%s: neither passed nor answered", c->script);
    // A client of HTTP/2 that is refused by its headers gets its answer when its small
    // body is there, and others at once.
    if (strcmp(c->script, "r") == 0 && c->ending != BARE && c->cut != CLIENT_RESETS && c->cut != TIME_IS_UP)
      CHECK(STREAM->refused_early != c->mode.http2, "%s: answered %s", c->script, c->mode.http2 ? "early" : "late");
    if (c->cut != TIME_IS_UP) {
      unsigned st = STREAM->status;
      CHECK(!STREAM->replied || st == 401 || st == 408 || st == 503, "%s: status %u", c->script, st);
    }
    stream_reset(STREAM);
  }
  worker_settle(&w);
  if (atomic_fetch_sub(&link->refs, 1) == 1) free(link);
  if (route != NULL) DM_ON(per_route_config_destroy)(route);
  DM_ON(config_destroy)(config);
}

// A route is open that says so, and where nobody has to say anything. One whose chain is not
// there is refused, also where there is no table, and so is one of which nothing was read
// where each says what it has: the table says that its routes do, or without one the listener.
void tables(void) {
  static const char unknown[] = "filter_failed", unmarked[] = "route_unmarked";
  static const struct {
    const char *table, *script;
    char chain;
    const char *reason;  // NULL: it passes
    bool writes;         // the listener has the filter say where requests come from
  } cases[] = {
      {HOST_TABLE, "p", 'b', NULL},
      {HOST_TABLE, "p", 'c', unknown},
      {HOST_TABLE, "r", HOST_NO_CHAIN, NULL},
      {HOST_TABLE, "p", 0, unmarked},
      {"marked chains\n", "p", 'a', unknown},
      {"marked chains\n", "r", HOST_NO_CHAIN, NULL},
      {"marked chains\n", "p", 0, unmarked},
      {HOST_PLAIN_TABLE, "p", 'b', NULL},
      {HOST_PLAIN_TABLE, "p", 'c', unknown},
      {HOST_PLAIN_TABLE, "r", HOST_NO_CHAIN, NULL},
      {HOST_PLAIN_TABLE, "r", 0, NULL},
      {"chains\n", "p", 'a', unknown},
      {"chains\n", "r", 0, NULL},
      {NULL, "p", 'a', unknown},
      {NULL, "r", HOST_NO_CHAIN, NULL},
      {NULL, "r", 0, NULL},
      {NULL, "r", 0, unmarked, true},
      {NULL, "p", 'a', unknown, true},
      {"chains\n", "r", 0, NULL, true},
      {"a", "p", 0, NULL},
      {"a", "p", HOST_NO_CHAIN, NULL},
  };
  host_worker w;
  worker_init(&w);
  dm_envoy_buffer name = {"meshgate", 8}, none = {"", 0}, writes = {"1", 1};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    front_config *config = (front_config *)DM_ON(config_new)(NULL, name, cases[i].writes ? writes : none);
    dm_route_module table = carry(cases[i].table);
    host_stream *s = stream_new(&w, (host_mode){.lingers = true, .chain = cases[i].chain}, config, table, cases[i].script);
    dm_request_headers_status st = DM_ON(request_headers)(s, s->module, true);
    bool passes = cases[i].reason == NULL;
    CHECK((st == DM_REQUEST_HEADERS_CONTINUE) == passes && s->replied != passes, "case %zu of tables", i);
    CHECK(passes || s->status == 503, "case %zu of tables: status %u", i, s->status);
    CHECK(strcmp(s->reason, passes ? "" : cases[i].reason) == 0, "case %zu of tables: %s", i, s->reason);
    s->passed = s->allowed > 0;
    s->nowhere = true;
    stream_reset(s);
    worker_settle(&w);
    DM_ON(per_route_config_destroy)(table);
    DM_ON(config_destroy)(config);
  }
}

void scenes(void) {
  for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++)
    for (int bits = 0; bits < 64; bits++)
      for (int ending = 0; ending < ENDS; ending++)
        for (int cut = 0; cut < CUTS; cut++)
          for (int at = 0; at < (cut == NOTHING ? 1 : STEPS); at++)
            for (int answers = 0; answers < 2; answers++) {
              scene c = {scripts[i], {bits & 1, bits & 2, bits & 4, bits & 8, bits & 16, 0}, ending, cut, at, bits & 32};
              // Half of all have their chain from a table.
              if ((i + (size_t)(bits + ending + at)) % 2 == 0) c.mode.chain = c.body_after_lookup ? 'b' : 'a';
              go_mode = answers ? ANSWER_LATER : ANSWER_AT_ONCE;
              play(&c);
            }
}
