// What the C front and Go share: the structs that cross the border, the
// functions of the front that Go calls, and the functions of Go that the front
// calls. C never holds a Go pointer: programs and listener configurations are
// small integers ("handles") into tables on the Go side. Handle 0 is never
// given out and always refuses.
#ifndef MESHGATE_FRONT_H
#define MESHGATE_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Number of identity headers; contract.NumIdentityHeaders.
#define FRONT_IDENTITY_HEADERS 7
// Bytes for what a decision yields: a packed record or the text of a refusal.
#define FRONT_BUFFER 8192
// Most headers of a refusal; more are dropped.
#define FRONT_PAIRS 8
// Largest packed record; contract.MaxPacked.
#define FRONT_PACKED 4096
#define FRONT_HASH 32

// Values of front_result.action; engine.Action.
enum { FRONT_REFUSE = 0, FRONT_CONTINUE = 1, FRONT_LOOKUP = 2, FRONT_ISSUE = 3 };

// A value of contract.Answer.
enum { FRONT_ANSWER_UNAVAILABLE = 3 };

// Part of front_result.buffer.
typedef struct front_span {
  uint32_t off, len;
} front_span;

// What a route carries: which program decides, and the header it reads. Owned by
// Envoy between per_route_config_new and per_route_config_destroy, immutable.
typedef struct front_route {
  uint32_t program;
  uint32_t header_len;
  char header[];
} front_route;

// What a listener carries. Owned by Envoy like front_route, immutable.
typedef struct front_config {
  uint32_t source;
  bool listener_strips;
} front_config;

// What a request shows to a decision; pointers into Envoy's memory.
typedef struct front_request {
  const char *path;
  const char *credential;
  size_t path_len;
  size_t credential_len;
  uint32_t program;
  uint32_t source;
  bool has_credential;
  // Pass through Go's scheduler after the decision; see breathe in request.c.
  bool breathe;
} front_request;

// Outcome of a decision, on the stack of the hook. The front sets action to
// FRONT_REFUSE and status to 0 before it enters Go; status 0 means that Go could
// not even refuse, and the front then refuses by itself.
typedef struct front_result {
  uint8_t action;
  bool remove_credential;
  uint8_t grpc_status;
  uint8_t pairs;  // used entries of names and values
  uint32_t status;
  front_span body;     // FRONT_REFUSE
  front_span details;  // FRONT_REFUSE
  front_span grpc_message;  // FRONT_REFUSE; the body for gRPC clients
  // Headers of the answer for FRONT_REFUSE; edits of the request after
  // meshgateHandOver.
  front_span names[FRONT_PAIRS];
  front_span values[FRONT_PAIRS];
  front_span plugin;   // FRONT_LOOKUP, FRONT_ISSUE
  front_span identity[FRONT_IDENTITY_HEADERS];  // FRONT_CONTINUE
  uint8_t hash[FRONT_HASH];                     // FRONT_LOOKUP
  char buffer[FRONT_BUFFER];
} front_result;

// A look-up off the worker; only the front looks inside (lookup.h).
typedef struct front_lookup front_lookup;

// ---- front, called by Go ----

// NULL only if memory is exhausted.
front_route *front_route_new(uint32_t program, const char *header, size_t len);
front_config *front_config_new(uint32_t source, bool listener_strips);
// Ends a look-up, from any thread, exactly once per look-up.
void front_lookup_finish(front_lookup *l, uint8_t answer, const char *packed, size_t len);
void front_log(int level, const char *text, size_t len);
bool front_log_enabled(int level);

// ---- Go, called by the front; none of them panics or blocks ----

extern void meshgateInit(uint32_t concurrency);
extern front_config *meshgateConfigNew(char *config, size_t len);
extern void meshgateConfigDestroy(uint32_t source);
extern front_route *meshgateRouteNew(char *config, size_t len);
extern void meshgateRouteDestroy(uint32_t program);
extern void meshgateDecide(front_request *q, front_result *r);
extern void meshgateAnswer(front_request *q, uint8_t *hash, uint8_t answer, char *packed, size_t len, front_result *r);
// Replaces a decision to issue by the edits that carry it out; none if it fails.
extern void meshgateHandOver(uint32_t program, char *plugin, size_t len, bool secure, char *client, size_t client_len,
                             front_result *r);
// Starts a look-up. From then on Go owns one reference of l and ends it with
// front_lookup_finish, whatever happens.
extern void meshgateResolve(uint32_t source, front_lookup *l, uint8_t *hash, char *plugin, size_t len);

#endif
