// Verdicts that a worker remembers; see repeat.c.
#ifndef MESHGATE_REPEAT_H
#define MESHGATE_REPEAT_H

#include <pthread.h>

#include "lookup.h"

// Names everything that a verdict depends on.
typedef struct front_key {
  uint64_t word[2];
} front_key;

// Says whether verdicts are remembered at all. Until then none is.
void front_repeat_begin(bool remember);
// Whether a remembered verdict may answer a request with this path, and which query then
// tells it from others: none (ptr is NULL) if the program finds nothing in it.
bool front_plain_path(const front_route *route, front_text path, front_text *query);
// The key of a request of which the early headers have been read. False if no remembered
// verdict may answer it; the functions below must not be called then.
bool front_repeat_key(const front_route *route, const front_config *config, const front_request *q, front_key *key);
// Writes the verdict of a key that still holds, as Go would, or returns false.
bool front_repeat_find(const front_key *key, front_result *r);
// Remembers what Go has decided, if it has proven it.
void front_repeat_keep(const front_key *key, const front_result *r);
// How many remembered verdicts were found in this process; it only grows.
uint64_t front_repeats(void);

// The same of each worker, or of those that share a counter where there are more. Counters
// have a cache line each, so that counting costs no worker the line of another.
#define FRONT_REPEATERS 64
typedef struct front_repeater {
  _Alignas(64) atomic_ullong found;
} front_repeater;
extern front_repeater meshgate_repeaters[FRONT_REPEATERS];

#endif
