// Says what became of a request: in its dynamic metadata, where the access log
// finds it, and in Envoy's counters. A request that is let pass at once costs one
// counter; nothing is written about it, its route and its headers say the rest.

#include <string.h>

#include "lookup.h"

// contract.MetadataNamespace, its keys and contract.Decision; note_test.go compares.
#define NAMESPACE "meshgate"
static const dm_module_buffer namespace = LITERAL(NAMESPACE);
static const dm_module_buffer key_decision = LITERAL("decision"), key_reason = LITERAL("reason");
static const dm_module_buffer refused = LITERAL("refused"), issued = LITERAL("issued"), none = LITERAL("none");
static const dm_module_buffer undecided = LITERAL("undecided");
static const dm_module_buffer nothing = LITERAL("");
// What the route says of itself; contract.MetaRoute and so on.
static const dm_module_buffer route_keys[] = {LITERAL("route"), LITERAL("route_id"), LITERAL("service"), LITERAL("service_id")};

static void set(dm_filter_envoy f, dm_module_buffer key, dm_module_buffer value) {
  DM_CALL(http_set_dynamic_metadata_string)(f, namespace, key, value);
}

void front_counters_define(dm_config_envoy e, front_config *c) {
  static const dm_module_buffer allowed_total = LITERAL("allowed_total");
  static const dm_module_buffer issued_total = LITERAL("issued_total");
  static const dm_module_buffer refused_total = LITERAL("refused_total");
  dm_module_buffer reason = key_reason;
  c->counts = DM_CALL(http_filter_config_define_counter)(e, allowed_total, NULL, 0, &c->allowed) == DM_METRICS_SUCCESS &&
              DM_CALL(http_filter_config_define_counter)(e, issued_total, NULL, 0, &c->issued) == DM_METRICS_SUCCESS &&
              DM_CALL(http_filter_config_define_counter)(e, refused_total, &reason, 1, &c->refused) == DM_METRICS_SUCCESS;
}

void front_note_allowed(dm_filter_envoy f, const front_config *c, bool waited) {
  if (c->counts) DM_CALL(http_filter_increment_counter)(f, c->allowed, NULL, 0, 1);
  if (waited) set(f, key_decision, nothing);
}

void front_note_issued(dm_filter_envoy f, const front_config *c) {
  if (c->counts) DM_CALL(http_filter_increment_counter)(f, c->issued, NULL, 0, 1);
  set(f, key_decision, issued);
}

void front_note_route(dm_filter_envoy f) {
  for (size_t i = 0; i < sizeof(route_keys) / sizeof(*route_keys); i++) {
    dm_envoy_buffer v = {NULL, 0};
    if (!DM_CALL(http_get_metadata_string)(f, DM_METADATA_ROUTE, namespace, route_keys[i], &v) || v.length == 0) continue;
    dm_module_buffer value = {v.ptr, v.length};
    set(f, route_keys[i], value);
  }
}

void front_note_refused(dm_filter_envoy f, const front_config *c, dm_module_buffer reason) {
  if (c != NULL && c->counts) DM_CALL(http_filter_increment_counter)(f, c->refused, &reason, 1, 1);
  set(f, key_decision, refused);
  set(f, key_reason, reason);
}

void front_note_who(dm_filter_envoy f, const front_result *r) {
  // By their places in contract.IdentityHeaders.
  static const struct {
    size_t header;
    dm_module_buffer key;
  } keys[] = {{0, LITERAL("consumer_id")}, {2, LITERAL("consumer")}, {3, LITERAL("application")}};
  for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
    front_span s = r->identity[keys[i].header];
    if (s.len == 0) continue;
    dm_module_buffer value = {r->buffer + s.off, s.len};
    set(f, keys[i].key, value);
  }
}

void front_note_waiting(dm_filter_envoy f) {
  set(f, key_decision, none);
  set(f, key_reason, undecided);
}

void front_note_undecided(dm_filter_envoy f, const front_config *c) { front_note_refused(f, c, undecided); }
