// Shows what the token cache counts in Envoy's statistics. Requests carry the
// figures there, at most once a second: every version of Envoy lets a stream change
// counters, and what nobody asks for does not change.

#include <time.h>

#include "lookup.h"
#include "repeat.h"

#define FIGURES_EVERY 1000000000LL  // ns

// In the order of front.h.
static const struct {
  dm_module_buffer name;
  bool gauge;
} figures[FRONT_FIGURES] = {
    {LITERAL("cache_hits_total"), false},
    {LITERAL("cache_negative_hits_total"), false},
    {LITERAL("cache_misses_total"), false},
    {LITERAL("cache_bypassed_total"), false},
    {LITERAL("cache_evictions_total"), false},
    {LITERAL("redis_hits_total"), false},
    {LITERAL("redis_errors_total"), false},
    {LITERAL("redis_skipped_total"), false},
    {LITERAL("redis_untrusted_total"), false},
    {LITERAL("introspections_total"), false},
    {LITERAL("introspection_errors_total"), false},
    {LITERAL("lookups_rejected_total"), false},
    {LITERAL("stale_served_total"), false},
    {LITERAL("linked"), true},
    {LITERAL("leased"), true},
    {LITERAL("lease_age_milliseconds"), true},
};

void front_figures_define(dm_config_envoy e, front_config *c) {
  for (size_t i = 0; i < FRONT_FIGURES; i++) {
    dm_metrics_result r = figures[i].gauge
                              ? DM_CALL(http_filter_config_define_gauge)(e, figures[i].name, NULL, 0, &c->figures[i])
                              : DM_CALL(http_filter_config_define_counter)(e, figures[i].name, NULL, 0, &c->figures[i]);
    c->counts = c->counts && r == DM_METRICS_SUCCESS;
  }
}

// The figures that are in Envoy's counters already belong to whoever holds `showing`.
static atomic_flag showing = ATOMIC_FLAG_INIT;
static uint64_t shown[FRONT_FIGURES];
static atomic_llong next;

void front_figures(dm_filter_envoy f, const front_config *c) {
  struct timespec t;
  if (!c->counts) return;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  long long now = (long long)t.tv_sec * 1000000000LL + t.tv_nsec;
  if (now < atomic_load_explicit(&next, memory_order_relaxed) || atomic_flag_test_and_set(&showing)) return;
  atomic_store_explicit(&next, now + FIGURES_EVERY, memory_order_relaxed);
  uint64_t now_are[FRONT_FIGURES] = {0};
  bool told = meshgateFigures(now_are);
  now_are[FRONT_FIGURE_HITS] += front_repeats();
  for (size_t i = 0; told && i < FRONT_FIGURES; i++) {
    if (figures[i].gauge) {
      DM_CALL(http_filter_set_gauge)(f, c->figures[i], NULL, 0, now_are[i]);
      continue;
    }
    // A cache that was closed takes its part of the sum along.
    if (now_are[i] > shown[i]) DM_CALL(http_filter_increment_counter)(f, c->figures[i], NULL, 0, now_are[i] - shown[i]);
    shown[i] = now_are[i];
  }
  atomic_flag_clear(&showing);
}
