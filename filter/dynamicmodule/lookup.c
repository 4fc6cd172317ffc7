// Life of a look-up: made on the worker, ended by the resolver from any thread,
// dropped by the stream when that goes, in any order.

#include "lookup.h"

#include <stdlib.h>
#include <string.h>

front_counters meshgate_counters;

static void unref(front_lookup *l) {
  if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_destroy(&l->lock);
  free(l->packed);
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
  pthread_mutex_init(&l->lock, NULL);
  l->dead = false;
  l->number = number;
  l->answer = FRONT_ANSWER_UNAVAILABLE;
  l->packed_len = 0;
  l->packed = NULL;
  memcpy(l->hash, hash, FRONT_HASH);
  l->next = s->lookups;
  s->lookups = l;
  atomic_fetch_add_explicit(&meshgate_counters.lookups_created, 1, memory_order_relaxed);
  meshgateResolve(s->config->source, l, l->hash, plugin, len);
  return true;
}

void front_lookup_drop_all(front_stream *s) {
  while (s->lookups != NULL) {
    front_lookup *l = s->lookups;
    s->lookups = l->next;
    pthread_mutex_lock(&l->lock);
    l->dead = true;
    pthread_mutex_unlock(&l->lock);
    unref(l);
  }
}

void front_lookup_finish(front_lookup *l, uint8_t answer, const char *packed, size_t len) {
  char *copy = len > 0 && len <= FRONT_PACKED ? malloc(len) : NULL;
  if (copy != NULL) {
    memcpy(copy, packed, len);
  } else if (len > 0) {
    answer = FRONT_ANSWER_UNAVAILABLE;
    len = 0;
  }
  pthread_mutex_lock(&l->lock);
  if (!l->dead) {
    l->answer = answer;
    l->packed_len = (uint32_t)len;
    l->packed = copy;
    copy = NULL;
    DM_CALL(http_filter_scheduler_commit)(l->scheduler, l->number);
  }
  pthread_mutex_unlock(&l->lock);
  free(copy);
  DM_CALL(http_filter_scheduler_delete)(l->scheduler);
  unref(l);
}
