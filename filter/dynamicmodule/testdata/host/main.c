// Runs the scenes, then a storm of as many streams as the argument says.
#include "../../repeat.h"
#include "host.h"

// The budget of bodies: one connection cannot take it all, all of them cannot take
// more, and what is released is there again.
static void budget(void) {
  enum { STREAMS = FRONT_BUDGET / FRONT_BUDGET_CONNECTION + 2 };
  front_stream s[STREAMS];
  memset(s, 0, sizeof(s));
  for (uint16_t i = 0; i < STREAMS; i++) s[i].connection = i / 2;
  CHECK(front_budget_hold(&s[0], FRONT_BUDGET_CONNECTION - 1) && front_budget_hold(&s[1], 1), "a connection has no budget");
  CHECK(!front_budget_hold(&s[1], 2) && front_budget_hold(&s[2], 2), "a connection takes more");
  for (int i = 0; i < STREAMS; i++) front_budget_release(&s[i]);
  for (uint16_t i = 0; i < STREAMS; i++) s[i].connection = i;
  int held = 0;
  for (int i = 0; i < STREAMS; i++) held += front_budget_hold(&s[i], FRONT_BUDGET_CONNECTION);
  CHECK(held == STREAMS - 2, "%d connections hold all that they may", held);
  for (int i = 0; i < STREAMS; i++) front_budget_release(&s[i]);
  CHECK(front_budget_held() == 0 && front_budget_hold(&s[0], 1), "nothing is free again");
  front_budget_release(&s[0]);
}

int main(int argc, char **argv) {
  front_counters *c = &meshgate_counters;
  CHECK(strcmp(envoy_dynamic_module_on_program_init(), DM_ABI_VERSION) == 0, "version");
  budget();
  tables();
  scenes();
  unsigned long long streams = atomic_load(&c->streams_created);
  storm(argc > 1 ? atoi(argv[1]) : 0);
  CHECK(c->streams_created == c->streams_freed, "%llu %llu", c->streams_created, c->streams_freed);
  CHECK(c->lookups_created == c->lookups_freed, "%llu %llu", c->lookups_created, c->lookups_freed);
  CHECK(c->routes_created == c->routes_freed && go_programs == 0, "%llu %llu", c->routes_created, c->routes_freed);
  CHECK(c->configs_created == c->configs_freed && go_sources == 0, "%llu %llu", c->configs_created, c->configs_freed);
  CHECK(c->deadlines_created == c->deadlines_freed, "%llu %llu", c->deadlines_created, c->deadlines_freed);
  CHECK(front_budget_held() == 0, "%zu bytes are still held", front_budget_held());
  CHECK(front_lingering() == 0, "%d streams still wait to be answered", front_lingering());
  CHECK(go_given_up > 0, "nothing was given up");
  CHECK(front_repeats() > 0, "nothing was answered from memory");
  printf("ok: %llu streams in scenes, %llu in the storm, %llu look-ups, %llu verdicts from memory\n", streams,
         c->streams_created - streams, c->lookups_created, (unsigned long long)front_repeats());
  return 0;
}
