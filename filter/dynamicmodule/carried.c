// What Envoy carries to the filter: one chain, for every request of the route or virtual
// host that has it, or all chains of a table, of which each route names its own by its
// content. A table has few different chains, and a configuration of its own for every
// route would be most of what a change of the table costs Envoy. In a table of marked routes
// one without a chain says so: a route that says nothing was not read.

#include <stdlib.h>
#include <string.h>

#include "carried.h"

// contract.MetadataNamespace, contract.MetaFilter, contract.NoChain, contract.MarkedChains and
// contract.PlainChains; carried_test.go compares.
static const dm_module_buffer namespace = LITERAL("meshgate"), key_filter = LITERAL("filter");
static const dm_module_buffer no_chain = LITERAL("none");
static const dm_module_buffer marked_chains = LITERAL("marked chains\n"), plain_chains = LITERAL("chains\n");

// Immutable; owned by Envoy. It has one reference of every route in it.
typedef struct front_carried {
  const front_route *only;  // of every request; NULL: those in slots, by their content
  bool marked;              // every route says what it has
  size_t slots_count;       // a power of two; 0 without slots
  const front_route *slots[];
} front_carried;

static size_t slot_of(const front_carried *c, const uint8_t content[FRONT_CONTENT]) {
  uint64_t word;  // of a hash: it needs no further mixing
  memcpy(&word, content, sizeof(word));
  return (size_t)word & (c->slots_count - 1);
}

// The place of a chain, which is empty if it is not there. There are more slots than chains.
static const front_route **place(front_carried *c, const uint8_t content[FRONT_CONTENT]) {
  size_t i = slot_of(c, content);
  while (c->slots[i] != NULL && memcmp(c->slots[i]->content, content, FRONT_CONTENT) != 0) i = (i + 1) & (c->slots_count - 1);
  return &c->slots[i];
}

// A chain that Go cannot take is left out: routes that name it are refused.
static void add(front_carried *c, char *chain, size_t len) {
  front_route *r = meshgateRouteNew(chain, len);
  if (r == NULL) return;
  const front_route **p = place(c, r->content);
  if (*p == NULL)
    *p = r;
  else
    front_route_release(r);
}

static front_carried *carried_all(char *text, size_t len, bool marked) {
  size_t lines = 1, slots = 2;
  for (size_t i = 0; i < len; i++) lines += text[i] == '\n';
  while (slots < 2 * lines) slots *= 2;
  front_carried *c = calloc(1, sizeof(*c) + slots * sizeof(c->slots[0]));
  if (c == NULL) return NULL;
  c->slots_count = slots;
  c->marked = marked;
  for (char *end = text + len; text < end;) {
    char *line_end = memchr(text, '\n', (size_t)(end - text));
    if (line_end == NULL) line_end = end;
    if (line_end > text) add(c, text, (size_t)(line_end - text));
    text = line_end + 1;
  }
  return c;
}

static front_carried *carried_one(char *text, size_t len) {
  front_carried *c = calloc(1, sizeof(*c));
  if (c == NULL) return NULL;
  front_route *r = meshgateRouteNew(text, len);
  // Program 0 refuses this route only.
  c->only = r != NULL ? r : front_route_new(0, NULL, 0, 0, 0, 0, false, false, NULL, 0);
  if (c->only != NULL) return c;
  free(c);
  return NULL;
}

static bool begins(dm_envoy_buffer text, dm_module_buffer with) {
  return text.length >= with.length && memcmp(text.ptr, with.ptr, with.length) == 0;
}

// NULL rejects the whole route table: only memory is a reason for that.
dm_route_module DM_ON(per_route_config_new)(dm_envoy_buffer name, dm_envoy_buffer config) {
  char *text = (char *)config.ptr;
  bool marked = begins(config, marked_chains);
  if (!marked && !begins(config, plain_chains)) return carried_one(text, config.length);
  size_t n = marked ? marked_chains.length : plain_chains.length;
  return carried_all(text + n, config.length - n, marked);
}

void DM_ON(per_route_config_destroy)(dm_route_module m) {
  front_carried *c = (front_carried *)m;
  if (c == NULL) return;
  if (c->only != NULL) front_route_release(c->only);
  for (size_t i = 0; i < c->slots_count; i++)
    if (c->slots[i] != NULL) front_route_release(c->slots[i]);
  free(c);
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Takes the name of a chain from what a route says.
static bool take_content(front_text *said, uint8_t content[FRONT_CONTENT]) {
  if (said->len < 2 * FRONT_CONTENT) return false;
  for (size_t i = 0; i < FRONT_CONTENT; i++) {
    int high = digit(said->ptr[2 * i]), low = digit(said->ptr[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    content[i] = (uint8_t)(high << 4 | low);
  }
  *said = (front_text){said->ptr + 2 * FRONT_CONTENT, said->len - 2 * FRONT_CONTENT};
  return true;
}

// What the selected route says to the filter; contract.Carried.
static front_text said_by_route(dm_filter_envoy f) {
  dm_envoy_buffer v = {NULL, 0};
  if (!DM_CALL(http_get_metadata_string)(f, DM_METADATA_ROUTE, namespace, key_filter, &v)) v.length = 0;
  return (front_text){v.ptr, v.length};
}

static bool says_none(front_text said) {
  return said.len == no_chain.length && memcmp(said.ptr, no_chain.ptr, said.len) == 0;
}

// Whether a route may be selected: a request without a path, such as CONNECT, has none, and
// Envoy answers 404.
static bool has_path(dm_filter_envoy f) {
  static const dm_module_buffer name = LITERAL(":path");
  dm_envoy_buffer v = {NULL, 0};
  return DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, name, &v, 0, NULL);
}

// Where a table carries nothing, nobody but the listener says that its routes are marked. It
// could be the table of another filter, which Envoy was sent with listeners that it refused.
front_selected front_select(dm_filter_envoy f, const front_config *of) {
  front_selected out = {NULL, false, false, false};
  front_carried *c = (front_carried *)DM_CALL(get_most_specific_route_config)(f);
  if (c != NULL && c->only != NULL) {
    out.route = c->only;
    return out;
  }
  // Also without a table: a route that names a chain is not open because nothing carries it.
  front_text said = said_by_route(f);
  uint8_t content[FRONT_CONTENT];
  out.unmarked = said.len == 0 && (c != NULL ? c->marked : of != NULL && of->marked && has_path(f));
  if (said.len == 0 || says_none(said)) return out;
  if (take_content(&said, content) && c != NULL) out.route = *place(c, content);
  out.unknown = out.route == NULL;
  out.strips = said.len > 0;
  return out;
}

// Tells the upstream what was stripped, unless a trusted client has stripped something
// before: what others say was removed by the listener.
static bool tell_prefix(dm_filter_envoy f, dm_module_buffer prefix) {
  static const dm_module_buffer name = LITERAL("x-forwarded-prefix");
  dm_envoy_buffer v = {NULL, 0};
  if (DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, name, &v, 0, NULL)) return true;
  return DM_CALL(http_add_header)(f, DM_REQUEST_HEADER, name, prefix);
}

bool front_strip_prefix(dm_filter_envoy f) {
  static const dm_module_buffer path_name = LITERAL(":path");
  dm_envoy_buffer v = {NULL, 0};
  front_text said = said_by_route(f), now;
  size_t n;
  if (said.len < 2 * FRONT_CONTENT || !DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, path_name, &v, 0, NULL)) return false;
  said = (front_text){said.ptr + 2 * FRONT_CONTENT, said.len - 2 * FRONT_CONTENT};
  if (!front_cut_path(said, (front_text){v.ptr, v.length}, &now, &n)) return false;
  dm_module_buffer prefix = {v.ptr, n}, value = {now.ptr, now.len};
  // First what points into the old path: setting it frees that.
  bool ok = tell_prefix(f, prefix) && DM_CALL(http_set_header)(f, DM_REQUEST_HEADER, path_name, value);
  free((char *)now.ptr);
  return ok;
}
