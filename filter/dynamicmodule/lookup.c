// Life of a look-up: made on the worker, ended by the resolver from any thread,
// dropped by the stream when that goes, in any order.

#include "lookup.h"

#include <stdlib.h>
#include <string.h>

front_counters meshgate_counters;

// Who asks, while meshgateResolve runs on this thread.
static _Thread_local dm_envoy_buffer asker;

front_text front_asker(void) { return (front_text){asker.ptr, asker.length}; }

static void unref(front_lookup *l) {
  if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  free(l);
  atomic_fetch_add_explicit(&meshgate_counters.lookups_freed, 1, memory_order_relaxed);
}

bool front_lookup_start(dm_filter_envoy f, front_stream *s, const uint8_t hash[FRONT_HASH], char *plugin, size_t len) {
  uint8_t number = s->lookups == NULL ? 1 : s->lookups->number + 1;
  if (number > FRONT_LOOKUPS) return false;
  front_lookup *l = malloc(sizeof(*l));
  if (l == NULL) return false;
  l->scheduler = DM_CALL(http_filter_scheduler_new)(f);
  if (l->scheduler == NULL) {
    free(l);
    return false;
  }
  atomic_init(&l->refs, 2);
  atomic_init(&l->dead, false);
  l->number = number;
  l->answer = FRONT_ANSWER_UNAVAILABLE;
  l->packed_len = 0;
  memcpy(l->hash, hash, FRONT_HASH);
  l->next = s->lookups;
  s->lookups = l;
  atomic_fetch_add_explicit(&meshgate_counters.lookups_created, 1, memory_order_relaxed);
  if (!DM_CALL(http_filter_get_attribute_string)(f, DM_SOURCE_ADDRESS, &asker)) asker.length = 0;
  meshgateResolve(s->config->source, l, l->hash, plugin, len);
  return true;
}

void front_lookup_drop_all(front_stream *s) {
  while (s->lookups != NULL) {
    front_lookup *l = s->lookups;
    s->lookups = l->next;
    atomic_store_explicit(&l->dead, true, memory_order_release);
    unref(l);
  }
}

void front_lookup_finish(front_lookup *l, uint8_t answer, const char *packed, size_t len) {
  if (len > FRONT_PACKED) {
    answer = FRONT_ANSWER_UNAVAILABLE;
    len = 0;
  }
  l->answer = answer;
  l->packed_len = (uint32_t)len;
  if (len > 0) memcpy(l->packed, packed, len);
  // A commit after the stream has gone is dropped by Envoy; looking first only
  // saves the work. The scheduler must be deleted either way.
  if (!atomic_load_explicit(&l->dead, memory_order_acquire)) DM_CALL(http_filter_scheduler_commit)(l->scheduler, l->number);
  DM_CALL(http_filter_scheduler_delete)(l->scheduler);
  unref(l);
}
