// Runs the scenes, then a storm of as many streams as the argument says.
#include "host.h"

int main(int argc, char **argv) {
  front_counters *c = &meshgate_counters;
  CHECK(strcmp(envoy_dynamic_module_on_program_init(), DM_ABI_VERSION) == 0, "version");
  scenes();
  unsigned long long streams = atomic_load(&c->streams_created);
  storm(argc > 1 ? atoi(argv[1]) : 0);
  CHECK(c->streams_created == c->streams_freed, "%llu %llu", c->streams_created, c->streams_freed);
  CHECK(c->lookups_created == c->lookups_freed, "%llu %llu", c->lookups_created, c->lookups_freed);
  CHECK(c->routes_created == c->routes_freed && go_programs == 0, "%llu %llu", c->routes_created, c->routes_freed);
  CHECK(c->configs_created == c->configs_freed && go_sources == 0, "%llu %llu", c->configs_created, c->configs_freed);
  CHECK(c->deadlines_created == c->deadlines_freed, "%llu %llu", c->deadlines_created, c->deadlines_freed);
  CHECK(front_budget_held() == 0, "%zu bytes are still held", front_budget_held());
  printf("ok: %llu streams in scenes, %llu in the storm, %llu look-ups\n", streams, c->streams_created - streams,
         c->lookups_created);
  return 0;
}
