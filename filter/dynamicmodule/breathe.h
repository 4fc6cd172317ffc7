// When a worker that decides passes through Go's scheduler. Every front in C needs it.
#ifndef MESHGATE_BREATHE_H
#define MESHGATE_BREATHE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// Go's runtime watches threads that call into it. One that calls often, but never
// passes through Go's scheduler, looks to it like a goroutine that has run for too
// long: after 10 ms its watcher takes the thread's processor away every 20
// microseconds, which costs more than all decisions together. So a busy worker
// lets the scheduler see it now and then: never more often than every 4 ms, and
// not at all while it is quiet, when there is nothing to gain.
#define BREATHE_AFTER 32            // decisions
#define BREATHE_EVERY 4000000LL     // ns

static inline bool front_breathe(void) {
  static _Thread_local uint32_t decisions;
  static _Thread_local int64_t last;
  if (++decisions < BREATHE_AFTER) return false;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  int64_t now = (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
  if (now - last < BREATHE_EVERY) return false;
  last = now;
  decisions = 0;
  return true;
}

#endif
