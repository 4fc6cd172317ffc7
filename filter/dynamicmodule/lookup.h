// The front's own structs, which Go never sees.
#ifndef MESHGATE_LOOKUP_H
#define MESHGATE_LOOKUP_H

#include <stdatomic.h>

#include "abi.h"
#include "front.h"

// A look-up off the worker. Two owners: the stream and the resolver; each drops
// its reference once, the last one frees. answer and packed are written by the
// resolver before it commits the scheduler and read by the worker afterwards;
// Envoy's dispatcher orders the two.
struct front_lookup {
  atomic_int refs;
  atomic_bool dead;  // the stream has gone: nothing needs to be scheduled
  bool resumed;      // worker only: one `scheduled` may act
  uint8_t answer;
  uint32_t packed_len;
  dm_scheduler scheduler;
  uint8_t hash[FRONT_HASH];  // of the token that was asked for
  char packed[FRONT_PACKED];
};

// How many of each struct were made and freed, for tests that look for leaks.
typedef struct front_counters {
  atomic_ullong streams_created, streams_freed;
  atomic_ullong lookups_created, lookups_freed;
  atomic_ullong routes_created, routes_freed;
  atomic_ullong configs_created, configs_freed;
} front_counters;
extern front_counters meshgate_counters;

// One stream; made and freed on its worker.
typedef struct front_stream {
  const front_config *config;
  const front_route *route;  // set when a look-up starts; lives as long as the stream
  front_lookup *lookup;      // the stream's reference, or NULL
} front_stream;

front_lookup *front_lookup_new(dm_filter_envoy f, const uint8_t hash[FRONT_HASH]);
void front_lookup_unref(front_lookup *l);

// Applies the outcome of a decision to the request. Returns false if the request
// was answered and must not go on.
bool front_apply(dm_filter_envoy f, const front_stream *s, const front_route *route, front_result *r);
// Answers 503 without Go's help.
void front_refuse_broken(dm_filter_envoy f);
// Removes client-sent identity and hand-over headers in every spelling that a
// server could take for them. False means that they may still be there: the
// request must not go on.
bool front_strip(dm_filter_envoy f, bool handing_over);

#endif
