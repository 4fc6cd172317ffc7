// Hooks of configurations and of the module itself.

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lookup.h"
#include "repeat.h"

const char *envoy_dynamic_module_on_program_init(void) {
  // Only here is the number of workers known: elsewhere Envoy 1.39 answers 0 and
  // 1.38 crashes.
  front_repeat_begin(meshgateInit(DM_CALL(get_concurrency)()));
  return DM_ABI_VERSION;
}

front_config *front_config_new(uint32_t source, bool listener_strips, uint8_t forwarding, bool marked) {
  static atomic_uint_fast64_t made;
  front_config *c = malloc(sizeof(*c));
  if (c == NULL) return NULL;
  c->id = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) + 1;
  c->source = source;
  c->listener_strips = listener_strips;
  c->forwarding = forwarding;
  c->marked = marked;
  c->counts = false;
  atomic_fetch_add_explicit(&meshgate_counters.configs_created, 1, memory_order_relaxed);
  return c;
}

dm_config_module DM_ON(config_new)(dm_config_envoy e, dm_envoy_buffer name, dm_envoy_buffer config) {
  front_config *c = meshgateConfigNew((char *)config.ptr, config.length);
  if (c != NULL) front_counters_define(e, c);
  if (c != NULL) front_figures_define(e, c);
  return c;
}

void DM_ON(config_destroy)(dm_config_module m) {
  front_config *c = (front_config *)m;
  if (c == NULL) return;
  meshgateConfigDestroy(c->source);
  free(c);
  atomic_fetch_add_explicit(&meshgate_counters.configs_freed, 1, memory_order_relaxed);
}

// A route with its owners counted; Go sees only the route.
typedef struct counted_route {
  atomic_uint refs;
  front_route route;
} counted_route;

static counted_route *counted(const front_route *r) {
  return (counted_route *)((char *)r - offsetof(counted_route, route));
}

// Takes the next of the texts that end with a zero byte. False if there is none.
static bool next_text(char **text, const char *end, front_text *out) {
  char *zero = *text < end ? memchr(*text, 0, (size_t)(end - *text)) : NULL;
  if (zero == NULL) return false;
  *out = (front_text){*text, (size_t)(zero - *text)};
  *text = zero + 1;
  return true;
}

front_route *front_route_new(uint32_t program, const uint8_t *content, uint64_t id, uint8_t early, uint8_t headers,
                             size_t queries, bool body_after_lookup, bool reads_protocol, const char *names, size_t len) {
  if (headers > FRONT_HEADERS || early > headers) return NULL;
  counted_route *c = malloc(sizeof(*c) + len);
  if (c == NULL) return NULL;
  atomic_init(&c->refs, 1);
  front_route *r = &c->route;
  r->id = id;
  if (content != NULL)
    memcpy(r->content, content, FRONT_CONTENT);
  else
    memset(r->content, 0, FRONT_CONTENT);
  r->program = program;
  r->early = early;
  r->headers = headers;
  r->body_after_lookup = body_after_lookup;
  r->reads_protocol = reads_protocol;
  r->reads_queries = queries > FRONT_QUERIES;
  r->queries = r->reads_queries ? 0 : (uint8_t)queries;
  char *text = (char *)(c + 1), *end = text + len;
  if (len > 0) memcpy(text, names, len);
  bool whole = true;
  for (size_t i = 0; i < headers; i++) whole = whole && next_text(&text, end, &r->names[i]);
  for (size_t i = 0; i < r->queries; i++) whole = whole && next_text(&text, end, &r->in_query[i]);
  if (!whole) {
    free(c);
    return NULL;
  }
  atomic_fetch_add_explicit(&meshgate_counters.routes_created, 1, memory_order_relaxed);
  return r;
}

void front_route_keep(const front_route *r) {
  atomic_fetch_add_explicit(&counted(r)->refs, 1, memory_order_relaxed);
}

void front_route_release(const front_route *r) {
  counted_route *c = counted(r);
  if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  if (r->program != 0) meshgateRouteDestroy(r->program);
  free(c);
  atomic_fetch_add_explicit(&meshgate_counters.routes_freed, 1, memory_order_relaxed);
}

void front_log(int level, const char *text, size_t len) {
  dm_module_buffer b = {text, len};
  DM_CALL(log)((dm_log_level)level, b);
}

bool front_log_enabled(int level) { return DM_CALL(log_enabled)((dm_log_level)level); }
