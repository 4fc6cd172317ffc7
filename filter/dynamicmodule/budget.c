// How many bytes of bodies are held back for decisions: by the process, and for
// each connection. Who has shown no credential yet decides how much there is, so
// there must be an end to it that leaves memory for everybody else.

#include "lookup.h"

// Connections that share a counter only make it fill sooner.
#define CONNECTIONS 4096

static atomic_size_t held;
// Not a variable of the thread: a library that is loaded late has little room for
// those.
static atomic_size_t held_by[CONNECTIONS];

// Lets Envoy buffer as much as is looked into, and one piece more: beyond its limit
// it would refuse by itself, or stop reading.
static void widen(dm_filter_envoy f) {
  const uint64_t want = FRONT_BODY + FRONT_BODY / 16, have = DM_CALL(http_get_buffer_limit)(f);
  if (have != 0 && have < want) DM_CALL(http_set_buffer_limit)(f, want);
}

void front_budget_open(dm_filter_envoy f, front_stream *s) {
  uint64_t id = 0;
  if (!DM_CALL(http_filter_get_attribute_int)(f, DM_CONNECTION_ID, &id)) id = 0;
  s->connection = (uint16_t)(id % CONNECTIONS);
  widen(f);
}

bool front_budget_hold(front_stream *s, size_t bytes) {
  if (bytes <= s->holding) return true;
  size_t more = bytes - s->holding;
  s->holding = bytes;
  size_t all = atomic_fetch_add_explicit(&held, more, memory_order_relaxed) + more;
  size_t own = atomic_fetch_add_explicit(&held_by[s->connection], more, memory_order_relaxed) + more;
  return all <= FRONT_BUDGET && own <= FRONT_BUDGET_CONNECTION;
}

void front_budget_release(front_stream *s) {
  if (s->holding == 0) return;
  atomic_fetch_sub_explicit(&held_by[s->connection], s->holding, memory_order_relaxed);
  atomic_fetch_sub_explicit(&held, s->holding, memory_order_relaxed);
  s->holding = 0;
}

size_t front_budget_held(void) { return atomic_load_explicit(&held, memory_order_relaxed); }
