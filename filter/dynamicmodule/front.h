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

// Begins the response code details of every refusal.
#define FRONT_DETAILS "meshgate_"
// Number of identity headers; contract.NumIdentityHeaders.
#define FRONT_IDENTITY_HEADERS 7
// Bytes for what a decision yields: packed records or the text of a refusal.
#define FRONT_BUFFER 12288
// Most headers that a program reads; engine.MaxHeaders.
#define FRONT_HEADERS 24
// Most names that a program may look for in queries and still be known to ignore one.
#define FRONT_QUERIES 8
// Most look-ups of one request; more would mean that answers are not used.
#define FRONT_LOOKUPS 4
// Largest body that is looked into; engine.MaxBody.
#define FRONT_BODY 1048576
// Most bytes of bodies that are held back at a time, in the process and for one
// connection.
#define FRONT_BUDGET 67108864
#define FRONT_BUDGET_CONNECTION 8388608
// Longest body that a refusal waits for, and how many wait at a time: each holds its
// answer in memory, and whoever may not get past decides how many there are.
#define FRONT_LINGER FRONT_BODY
#define FRONT_LINGERERS 2048
// Most headers of a refusal; more are dropped.
#define FRONT_PAIRS 8
// The cluster of the OAuth server; contract.OAuthCluster.
#define FRONT_OAUTH_CLUSTER "oauth2"
// The filter state by which the table of a gateway selects its route; contract.StateOAuth
// and contract.StateHandedOver.
#define FRONT_STATE_OAUTH "meshgate.oauth"
#define FRONT_STATE_HANDED_OVER "handed-over"
// Largest packed record; contract.MaxPacked.
#define FRONT_PACKED 4096
#define FRONT_HASH 32
// Bytes of the name of a chain; contract.ChainID.
#define FRONT_CONTENT 16

// Values of front_result.action; engine.Action.
enum {
  FRONT_REFUSE = 0,
  FRONT_CONTINUE = 1,
  FRONT_LOOKUP = 2,
  FRONT_ISSUE = 3,
  FRONT_NEED_HEADERS = 4,
  FRONT_NEED_BODY = 5
};

// Values of front_config.forwarding; the order of contract.Forwardings.
enum { FRONT_FORWARDING_NONE = 0, FRONT_FORWARDING_PEER = 1, FRONT_FORWARDING_TRUSTED = 2 };

// Values of front_request.body_state; engine.BodyState.
enum { FRONT_BODY_UNREAD = 0, FRONT_BODY_READ = 1, FRONT_BODY_TOO_LARGE = 2 };

// A value of contract.Answer.
enum { FRONT_ANSWER_UNAVAILABLE = 3 };

// Part of front_result.buffer.
typedef struct front_span {
  uint32_t off, len;
} front_span;

// Text that somebody else owns.
typedef struct front_text {
  const char *ptr;
  size_t len;
} front_text;

// What a chain is to the front: which program decides, and the headers it reads, of
// which the first `early` are needed by every decision. Immutable. Owned by
// what Envoy holds between per_route_config_new and per_route_config_destroy, and by
// every stream that waits; the last owner frees it. The names point behind the struct.
typedef struct front_route {
  uint64_t id;  // engine.Program.ID; 0 if none of its verdicts repeats
  uint8_t content[FRONT_CONTENT];  // names the chain
  uint32_t program;
  uint8_t early, headers;
  bool body_after_lookup;
  bool reads_protocol;
  // Every query may count: the names that the program looks for are too many.
  bool reads_queries;
  uint8_t queries;
  front_text names[FRONT_HEADERS];
  front_text in_query[FRONT_QUERIES];  // in lower case; engine.Program.QueryNames
} front_route;

// What the token caches count; see figures.c and figures.go.
#define FRONT_FIGURES 16
#define FRONT_FIGURE_HITS 0
#define FRONT_FIGURE_LEASE_AGE 15

// What a listener carries. Owned by Envoy like front_route, immutable. The last
// ones name counters, if there are any.
typedef struct front_config {
  uint64_t id;  // tells all configurations of the process apart
  uint32_t source;
  uint8_t forwarding;  // who says where requests come from
  bool marked;         // each route says whether it has a chain
  bool listener_strips;
  bool counts;
  size_t allowed, issued, refused, figures[FRONT_FIGURES];
} front_config;

// What a look-up of this request has come to.
typedef struct front_answer {
  const uint8_t *hash;
  const char *packed;
  uint32_t packed_len;
  uint8_t answer;
} front_answer;

// What says whether remembered verdicts hold; tokencache.Page. Only Go writes it.
#define FRONT_SLOTS 4096
// Where they begin.
#define FRONT_PAGE_SLOTS 64
typedef struct front_page front_page;

// How many slots a proof looks at: of the token and its two owners.
#define FRONT_OWNERS 3

// Until when a verdict holds; tokencache.Proof.
typedef struct front_proof {
  front_page *page;  // NULL: it is for one request
  uint64_t generation;
  uint64_t counts[FRONT_OWNERS];
  int64_t end;  // ms of Unix time; 0 is never
  uint32_t slots[FRONT_OWNERS];
} front_proof;

// What a request shows to a decision; pointers into Envoy's memory. Of values and
// answers only as many entries are set as headers and answered say.
typedef struct front_request {
  front_text path;
  front_text body;  // FRONT_BODY_READ
  uint32_t program;
  uint32_t source;
  uint32_t present;   // bit i: header i was sent
  uint32_t repeated;  // bit i: more than once
  uint8_t headers;    // how many of the route's headers have been read
  uint8_t answered;
  uint8_t body_state;
  bool http2;
  // Pass through Go's scheduler after the decision; see breathe.h.
  bool breathe;
  // Prove a verdict that repeats, so that it can be remembered.
  bool prove;
  front_text values[FRONT_HEADERS];
  front_answer answers[FRONT_LOOKUPS];
} front_request;

// Outcome of a decision, on the stack of the hook. The front sets action to
// FRONT_REFUSE and status to 0 before it enters Go; status 0 means that Go could
// not even refuse, and the front then refuses by itself.
typedef struct front_result {
  uint8_t action;
  uint8_t grpc_status;
  uint8_t pairs;  // used entries of names and values
  uint16_t hide_query, hide_body;  // FRONT_CONTINUE, FRONT_ISSUE; for meshgateRewrite
  uint32_t remove;                 // FRONT_CONTINUE, FRONT_ISSUE; bit i: header i of the route
  uint32_t status;
  front_span body;     // FRONT_REFUSE
  front_span details;  // FRONT_REFUSE; FRONT_DETAILS and the reason
  front_span grpc_message;  // FRONT_REFUSE; the body for gRPC clients
  // Headers of the answer for FRONT_REFUSE; edits of the request after
  // meshgateHandOver.
  front_span names[FRONT_PAIRS];
  front_span values[FRONT_PAIRS];
  front_span plugin;   // FRONT_LOOKUP, FRONT_ISSUE
  // FRONT_CONTINUE; for FRONT_REFUSE who asked, for the log, as far as that is known.
  front_span identity[FRONT_IDENTITY_HEADERS];
  uint8_t hash[FRONT_HASH];                     // FRONT_LOOKUP
  front_proof proof;                            // FRONT_CONTINUE
  char buffer[FRONT_BUFFER];
} front_result;

// A look-up off the worker; only the front looks inside (lookup.h).
typedef struct front_lookup front_lookup;

// ---- front, called by Go ----

// NULL only if memory is exhausted. names are those of `headers` headers and then of
// `queries` parameters, each ended by a zero byte. content may be NULL.
front_route *front_route_new(uint32_t program, const uint8_t *content, uint64_t id, uint8_t early, uint8_t headers,
                             size_t queries, bool body_after_lookup, bool reads_protocol, const char *names, size_t len);
front_config *front_config_new(uint32_t source, bool listener_strips, uint8_t forwarding, bool marked);
// Ends a look-up, from any thread, exactly once per look-up.
void front_lookup_finish(front_lookup *l, uint8_t answer, const char *packed, size_t len);
void front_log(int level, const char *text, size_t len);
bool front_log_enabled(int level);

// ---- Go, called by the front; none of them panics or blocks ----

// Returns whether verdicts may be remembered.
extern bool meshgateInit(uint32_t concurrency);
extern front_config *meshgateConfigNew(char *config, size_t len);
extern void meshgateConfigDestroy(uint32_t source);
extern front_route *meshgateRouteNew(char *config, size_t len);
extern void meshgateRouteDestroy(uint32_t program);
// Adds up what all token caches have counted. False if that cannot be told now.
extern bool meshgateFigures(uint64_t *out);
extern void meshgateDecide(front_request *q, front_result *r);
// Removes hidden credentials from path and body, which it edits in place; both
// only get shorter. False leaves them in a state that must not be used.
extern bool meshgateRewrite(uint32_t program, uint16_t hide_query, uint16_t hide_body, front_text *type, front_text *path,
                            front_text *body);
// Replaces a decision to issue by the edits that carry it out; none if it fails.
extern void meshgateHandOver(uint32_t program, char *plugin, size_t len, bool secure, char *client, size_t client_len,
                             front_result *r);
// The client's address with its port, inside meshgateResolve.
front_text front_asker(void);
// Starts a look-up. From then on Go owns one reference of l and ends it with
// front_lookup_finish, whatever happens. Returns its name for meshgateGiveUp.
extern uint32_t meshgateResolve(uint32_t source, front_lookup *l, uint8_t *hash, char *plugin, size_t len);
// Ends l, in the same way, when a body has had its time to arrive.
extern uint32_t meshgateAwait(front_lookup *l);
// Ends what one of the two has begun and named so, as nobody waits for it any
// more. Nothing happens if it has ended.
extern void meshgateGiveUp(uint32_t pending);

#endif
