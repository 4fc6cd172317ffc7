// Life of a look-up: made on the worker, ended by the resolver from any thread,
// dropped by the stream when that goes, in any order.

#include "lookup.h"

#include <stdlib.h>
#include <string.h>

front_counters meshgate_counters;

front_lookup *front_lookup_new(dm_filter_envoy f, const uint8_t hash[FRONT_HASH]) {
  front_lookup *l = malloc(sizeof(*l));
  if (l == NULL) return NULL;
  atomic_init(&l->refs, 2);
  atomic_init(&l->dead, false);
  l->resumed = false;
  l->answer = FRONT_ANSWER_UNAVAILABLE;
  l->packed_len = 0;
  memcpy(l->hash, hash, FRONT_HASH);
  l->scheduler = DM_CALL(http_filter_scheduler_new)(f);
  if (l->scheduler == NULL) {
    free(l);
    return NULL;
  }
  atomic_fetch_add_explicit(&meshgate_counters.lookups_created, 1, memory_order_relaxed);
  return l;
}

void front_lookup_unref(front_lookup *l) {
  if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  free(l);
  atomic_fetch_add_explicit(&meshgate_counters.lookups_freed, 1, memory_order_relaxed);
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
  if (!atomic_load_explicit(&l->dead, memory_order_acquire)) DM_CALL(http_filter_scheduler_commit)(l->scheduler, 0);
  DM_CALL(http_filter_scheduler_delete)(l->scheduler);
  front_lookup_unref(l);
}
