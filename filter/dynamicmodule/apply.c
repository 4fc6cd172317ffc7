// Applies outcomes to a request: edits its headers or answers it.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lookup.h"

// In the order of contract.IdentityHeaders; abi_test.go compares.
const dm_module_buffer front_identity_names[FRONT_IDENTITY_HEADERS] = {
    LITERAL("x-consumer-id"),           LITERAL("x-consumer-custom-id"),  LITERAL("x-consumer-username"),
    LITERAL("x-credential-identifier"), LITERAL("x-authenticated-scope"), LITERAL("x-authenticated-userid"),
    LITERAL("x-anonymous-consumer"),
};

static const dm_module_buffer content_type = LITERAL("content-type");

static dm_module_buffer part(const front_result *r, front_span s) {
  dm_module_buffer b = {r->buffer + s.off, s.len};
  return b;
}

// A value without length removes the header.
static void set(dm_filter_envoy f, dm_module_buffer name, dm_module_buffer value) {
  DM_CALL(http_set_header)(f, DM_REQUEST_HEADER, name, value);
}

// application/grpc, alone or followed by + or ; (gRPC over HTTP/2, "Requests").
// Envoy answers grpc-web as plain HTTP.
static bool is_grpc(dm_filter_envoy f) {
  static const char prefix[] = "application/grpc";
  const size_t n = sizeof(prefix) - 1;
  dm_envoy_buffer v = {NULL, 0};
  if (!DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, content_type, &v, 0, NULL)) return false;
  if (v.length < n || memcmp(v.ptr, prefix, n) != 0) return false;
  return v.length == n || v.ptr[n] == '+' || v.ptr[n] == ';';
}

// Envoy turns a local reply to a gRPC request into HTTP 200 with the body as
// grpc-message, and with grpc-status 0 unless the headers carry the status: a
// denial would look like success.
static dm_module_header grpc_status(unsigned status, char digits[2]) {
  size_t n = 0;
  if (status >= 10) digits[n++] = (char)('0' + status / 10 % 10);
  digits[n++] = (char)('0' + status % 10);
  return (dm_module_header){"grpc-status", sizeof("grpc-status") - 1, digits, n};
}

// The reason in the details of a refusal.
static dm_module_buffer reason_of(dm_module_buffer details) {
  const size_t n = sizeof(FRONT_DETAILS) - 1;
  return details.length > n ? (dm_module_buffer){details.ptr + n, details.length - n} : details;
}

static void refuse_unavailable(dm_filter_envoy f, const front_config *c, dm_module_buffer details) {
  static const dm_module_buffer body = LITERAL("{\"message\":\"Service unavailable\"}");
  static const dm_module_buffer message = LITERAL("Unavailable");
  dm_module_header json = {"content-type", 12, "application/json; charset=utf-8", 31};
  char digits[2];
  front_note_refused(f, c, reason_of(details));
  if (is_grpc(f)) {
    dm_module_header h = grpc_status(14, digits);
    DM_CALL(http_send_response)(f, 503, &h, 1, message, details);
    return;
  }
  DM_CALL(http_send_response)(f, 503, &json, 1, body, details);
}

void front_refuse_broken(dm_filter_envoy f, const front_config *c) {
  static const dm_module_buffer details = LITERAL(FRONT_DETAILS "filter_failed");
  refuse_unavailable(f, c, details);
}

void front_refuse_unmarked(dm_filter_envoy f, const front_config *c) {
  static const dm_module_buffer details = LITERAL(FRONT_DETAILS "route_unmarked");
  refuse_unavailable(f, c, details);
}

// A refusal that the front sends by itself. The first header is the type of the body.
typedef struct fixed_refusal {
  unsigned status, grpc_status;
  dm_module_buffer body, grpc_message, details;
  size_t pairs;
  dm_module_header headers[2];
} fixed_refusal;

#include "refusals_table.h"

void front_refuse_body(dm_filter_envoy f, const front_config *c, bool late) {
  const fixed_refusal *r = late ? &body_deadline : &body_budget;
  dm_module_header h[2] = {r->headers[0], r->headers[1]};
  char digits[2];
  bool grpc = is_grpc(f);
  front_note_refused(f, c, reason_of(r->details));
  if (grpc) h[0] = grpc_status(r->grpc_status, digits);  // the type of a gRPC answer is Envoy's to say
  DM_CALL(http_send_response)(f, r->status, h, r->pairs, grpc ? r->grpc_message : r->body, r->details);
}

// What Go could not even refuse is noted where it is answered.
void front_note_refusal(dm_filter_envoy f, const front_config *c, const front_result *r) {
  if (r->status == 0) return;
  front_note_refused(f, c, reason_of(part(r, r->details)));
  front_note_who(f, r);
}

void front_refuse(dm_filter_envoy f, const front_config *c, const front_result *r) {
  if (r->status == 0) {
    front_refuse_broken(f, c);
    return;
  }
  dm_module_header h[FRONT_PAIRS + 1];
  char digits[2];
  size_t n = 0;
  bool grpc = is_grpc(f);
  for (size_t i = 0; i < r->pairs && i < FRONT_PAIRS; i++) {
    dm_module_buffer k = part(r, r->names[i]), v = part(r, r->values[i]);
    // The type of a gRPC answer is Envoy's to say.
    if (grpc && k.length == content_type.length && memcmp(k.ptr, content_type.ptr, k.length) == 0) continue;
    h[n++] = (dm_module_header){k.ptr, k.length, v.ptr, v.length};
  }
  if (grpc) h[n++] = grpc_status(r->grpc_status, digits);
  DM_CALL(http_send_response)(f, r->status, h, n, part(r, grpc ? r->grpc_message : r->body), part(r, r->details));
}

// Whether the route that is selected now leads to the OAuth server.
static bool leads_to_oauth(dm_filter_envoy f) {
  static const dm_module_buffer want = LITERAL(FRONT_OAUTH_CLUSTER);
  dm_envoy_buffer got = {NULL, 0};
  return DM_CALL(http_get_cluster_name)(f, &got) && got.length == want.length && memcmp(got.ptr, want.ptr, want.length) == 0;
}

// Says that the request is handed over, where no client can say it: the table of a gateway
// selects the route by this, others by the header.
static void mark(dm_filter_envoy f) {
  static const dm_module_buffer key = LITERAL(FRONT_STATE_OAUTH), value = LITERAL(FRONT_STATE_HANDED_OVER);
  DM_CALL(http_set_filter_state_bytes)(f, key, value);
}

// Prepares the hand-over of the request to the OAuth server and has its route
// selected. The scheme is that of the connection and not :scheme, which an HTTP/2
// client chooses itself.
static bool hand_over(dm_filter_envoy f, const front_config *c, const front_route *route, front_result *r) {
  dm_envoy_buffer tls = {NULL, 0}, client = {NULL, 0};
  bool secure = DM_CALL(http_filter_get_attribute_string)(f, DM_CONNECTION_TLS_VERSION, &tls) && tls.length > 0;
  if (!DM_CALL(http_filter_get_attribute_string)(f, DM_SOURCE_ADDRESS, &client)) client.length = 0;
  meshgateHandOver(route->program, r->buffer + r->plugin.off, r->plugin.len, secure, (char *)client.ptr, client.length,
                   r);
  if (r->pairs == 0) return false;
  for (size_t i = 0; i < r->pairs; i++) set(f, part(r, r->names[i]), part(r, r->values[i]));
  front_forward_proto(f, c);
  mark(f);
  DM_CALL(http_clear_route_cache)(f);
  return true;
}

// Where this filter strips, no header of these names is left and each is appended: to set
// one, Envoy searches for it first, and builds an index of all headers for that.
static void admit(dm_filter_envoy f, const front_config *c, bool waited, const front_result *r) {
  front_note_allowed(f, c, waited);
  for (size_t i = 0; i < FRONT_IDENTITY_HEADERS; i++) {
    if (r->identity[i].len == 0) continue;
    if (c->listener_strips)
      set(f, front_identity_names[i], part(r, r->identity[i]));
    else
      DM_CALL(http_add_header)(f, DM_REQUEST_HEADER, front_identity_names[i], part(r, r->identity[i]));
  }
}

static front_text header(dm_filter_envoy f, dm_module_buffer name) {
  dm_envoy_buffer v = {NULL, 0};
  if (!DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, name, &v, 0, NULL)) return (front_text){NULL, 0};
  return (front_text){v.ptr, v.length};
}

// Puts what is left of the body in its place. A request without content-length
// gets none.
static bool shorten(dm_filter_envoy f, bool in_hook, front_text bytes) {
  static const dm_module_buffer name = LITERAL("content-length");
  char digits[24];
  if (!front_body_replace(f, in_hook, bytes)) return false;
  if (header(f, name).ptr == NULL) return true;
  int n = snprintf(digits, sizeof(digits), "%zu", bytes.len);
  dm_module_buffer value = {digits, (size_t)n};
  set(f, name, value);
  return true;
}

// Removes hidden credentials from the query and the body.
static bool rewrite(dm_filter_envoy f, const front_route *route, const front_body *body, const front_result *r) {
  static const dm_module_buffer path_name = LITERAL(":path");
  front_text before = header(f, path_name), type = header(f, content_type);
  // A copy: Go shortens it in place, and setting it frees what Envoy has.
  char *copy = malloc(before.len + 1);
  if (copy == NULL) return false;
  if (before.len > 0) memcpy(copy, before.ptr, before.len);
  front_text path = {copy, before.len}, bytes = {body->data, body->len};
  bool ok = meshgateRewrite(route->program, r->hide_query, r->hide_body, &type, &path, &bytes);
  if (ok && path.len != before.len) {
    dm_module_buffer value = {path.ptr, path.len};
    set(f, path_name, value);
  }
  if (ok && bytes.len != body->len) ok = shorten(f, body->in_hook, bytes);
  free(copy);
  return ok;
}

// Hands the request to the OAuth server, or answers it: a table without a route
// to that server would send it to a workload, past its plugins and with headers
// that speak for the gateway.
static bool issue(dm_filter_envoy f, const front_config *c, const front_route *route, front_result *r) {
  static const dm_module_buffer details = LITERAL(FRONT_DETAILS "no_oauth_route");
  front_note_route(f);
  if (!hand_over(f, c, route, r)) {
    front_refuse_broken(f, c);
    return false;
  }
  if (leads_to_oauth(f)) {
    front_note_issued(f, c);
    return true;
  }
  refuse_unavailable(f, c, details);
  return false;
}

bool front_apply(dm_filter_envoy f, const front_config *c, const front_route *route, bool waited, const front_body *body,
                 front_result *r) {
  static const dm_module_buffer none = {NULL, 0};
  if (r->action != FRONT_CONTINUE && r->action != FRONT_ISSUE) {
    front_refuse(f, c, r);
    return false;
  }
  if (!front_strip(f, c, r->action == FRONT_ISSUE)) {
    front_refuse_broken(f, c);
    return false;
  }
  if ((r->hide_query != 0 || r->hide_body != 0) && !rewrite(f, route, body, r)) {
    front_refuse_broken(f, c);
    return false;
  }
  for (size_t i = 0; r->remove >> i != 0 && i < route->headers; i++) {
    dm_module_buffer name = {route->names[i].ptr, route->names[i].len};
    if (r->remove >> i & 1) set(f, name, none);
  }
  if (r->action == FRONT_ISSUE) return issue(f, c, route, r);
  admit(f, c, waited, r);
  return true;
}
