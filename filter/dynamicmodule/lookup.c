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
  bool deadline = l->number == FRONT_DEADLINE;
  pthread_mutex_destroy(&l->lock);
  free(l->packed);
  free(l);
  atomic_fetch_add_explicit(deadline ? &meshgate_counters.deadlines_freed : &meshgate_counters.lookups_freed, 1,
                            memory_order_relaxed);
}

// One look-up of the stream with two references; NULL if that is impossible.
static front_lookup *begin(dm_filter_envoy f, uint8_t number) {
  front_lookup *l = malloc(sizeof(*l));
  if (l == NULL) return NULL;
  l->scheduler = DM_CALL(http_filter_scheduler_new)(f);
  if (l->scheduler == NULL) {
    free(l);
    return NULL;
  }
  atomic_init(&l->refs, 2);
  pthread_mutex_init(&l->lock, NULL);
  l->dead = false;
  l->finished = false;
  l->pending = 0;
  l->number = number;
  l->answer = FRONT_ANSWER_UNAVAILABLE;
  l->packed_len = 0;
  l->packed = NULL;
  l->next = NULL;
  atomic_fetch_add_explicit(
      number == FRONT_DEADLINE ? &meshgate_counters.deadlines_created : &meshgate_counters.lookups_created, 1,
      memory_order_relaxed);
  return l;
}

bool front_lookup_start(dm_filter_envoy f, front_stream *s, const uint8_t hash[FRONT_HASH], char *plugin, size_t len) {
  uint8_t number = s->lookups == NULL ? 1 : s->lookups->number + 1;
  front_lookup *l = number > FRONT_LOOKUPS ? NULL : begin(f, number);
  if (l == NULL) return false;
  memcpy(l->hash, hash, FRONT_HASH);
  l->next = s->lookups;
  s->lookups = l;
  if (!DM_CALL(http_filter_get_attribute_string)(f, DM_SOURCE_ADDRESS, &asker)) asker.length = 0;
  l->pending = meshgateResolve(s->config->source, l, l->hash, plugin, len);
  return true;
}

bool front_deadline_start(dm_filter_envoy f, front_stream *s) {
  if (s->deadline != NULL) return true;
  if ((s->deadline = begin(f, FRONT_DEADLINE)) == NULL) return false;
  s->deadline->pending = meshgateAwait(s->deadline);
  return true;
}

// Go is told only of what it still works at: a flood of clients that leave must
// not fill its rows.
static void drop(front_lookup *l) {
  pthread_mutex_lock(&l->lock);
  l->dead = true;
  bool finished = l->finished;
  pthread_mutex_unlock(&l->lock);
  if (!finished) meshgateGiveUp(l->pending);
  unref(l);
}

void front_lookup_drop_all(front_stream *s) {
  if (s->deadline != NULL) drop(s->deadline);
  s->deadline = NULL;
  while (s->lookups != NULL) {
    front_lookup *l = s->lookups;
    s->lookups = l->next;
    drop(l);
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
  l->finished = true;
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
