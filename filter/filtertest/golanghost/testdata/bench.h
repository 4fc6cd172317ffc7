// Commands for the token cache of testdata/storm, and a benchmark.
#ifndef BENCH_H
#define BENCH_H

#include "storm.h"

// put HASH PACKED: has the first level know a token.
static void put(void) {
  text hash = unhex(word()), packed = unhex(word());
  storm_put(hash.p, packed.p, (int)packed.n);
  free(hash.p);
  free(packed.p);
  puts("done");
}

// set TOKEN GOOD: revokes a token, or makes it good.
static void set(void) {
  int i = (int)number();
  storm_set(i, (int)number());
  puts("done");
}

// hold 1 has look-ups wait when they have read what is true, hold 0 lets them go on, hold 2 waits
// for one that waits.
static void hold(void) {
  int how = (int)number();
  if (how == 2)
    storm_arrived();
  else
    storm_hold(how);
  puts("done");
}

static void bench_one(uint64_t config) {
  stream *s = new_stream(&workers[0]);
  char name[16];
  s->request.configId = config;
  add(&s->headers, ":path", "/a/path?with=a&query");
  add(&s->headers, ":method", "GET");
  add(&s->headers, ":scheme", "http");
  add(&s->headers, ":authority", "host");
  add(&s->headers, "authorization", "Bearer t0");
  for (int i = 0; i < 7; i++) {
    snprintf(name, sizeof(name), "x-header-%d", i);
    add(&s->headers, name, "a value of a common length");
  }
  decode_headers(s);
  while (!s->over && take_event(&workers[0], 20)) {
  }
  if (!s->passed) abort();
  respond(s);
  end(s, 0);
}

// bench N CONFIG: lets N requests with a known token pass, and tells the nanoseconds of one, how
// many objects Go has made, and how many requests were finalised at once: those of the front.
static void bench(void) {
  long n = number(), before_at_once = at_once;
  uint64_t config = (uint64_t)number();
  unsigned long long before[4], after[4];
  for (int i = 0; i < 100; i++) bench_one(config);
  before_at_once = at_once;
  storm_go(before);
  double began = seconds();
  for (long i = 0; i < n; i++) bench_one(config);
  double took = seconds() - began;
  storm_go(after);
  printf("bench %.0f %llu %ld\n", took * 1e9 / (double)n, after[0] - before[0], at_once - before_at_once);
}

#endif
