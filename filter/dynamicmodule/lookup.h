// The front's own structs, which Go never sees.
#ifndef MESHGATE_LOOKUP_H
#define MESHGATE_LOOKUP_H

#include <pthread.h>
#include <stdatomic.h>

#include "abi.h"
#include "front.h"

// A look-up off the worker, or the wait for a body's deadline. Two owners: the stream and the resolver; each drops
// its reference once, the last one frees. answer and packed are written by the
// resolver before it commits the scheduler and read by the worker afterwards;
// Envoy's dispatcher orders the two.
//
// An event is committed only while the stream is there, and the stream waits for
// a commit under way before it goes: what Envoy's scheduler needs of the stream is
// not safe from its end in every version.
struct front_lookup {
  atomic_int refs;
  pthread_mutex_t lock;  // nothing is called under it but the commit
  bool dead;             // guarded by lock: nobody waits any more
  bool finished;         // guarded by lock: the resolver is done with it
  uint32_t pending;      // worker only: what Go calls it
  uint8_t number;        // of the stream's look-ups, from 1, or FRONT_DEADLINE; tells its `scheduled`
  uint8_t answer;
  uint32_t packed_len;
  front_lookup *next;  // worker only: the one before, or NULL
  dm_scheduler scheduler;
  uint8_t hash[FRONT_HASH];  // of the token that was asked for
  char *packed;              // owned; NULL if packed_len is 0
};

// In the order of tokencache.Page.
struct front_page {
  atomic_uint_fast64_t generation;
  _Atomic int64_t lease_end, apart;
  uint64_t unused[5];
  atomic_uint_fast64_t slots[FRONT_SLOTS];
};
_Static_assert(offsetof(struct front_page, slots) == FRONT_PAGE_SLOTS, "tokencache.Page");

// The number of a deadline.
enum { FRONT_DEADLINE = 255 };

// How many of each struct were made and freed, for tests that look for leaks.
typedef struct front_counters {
  atomic_ullong streams_created, streams_freed;
  atomic_ullong lookups_created, lookups_freed;
  atomic_ullong routes_created, routes_freed;
  atomic_ullong configs_created, configs_freed;
  atomic_ullong deadlines_created, deadlines_freed;
} front_counters;
extern front_counters meshgate_counters;

// Where a stream stands.
typedef enum front_phase {
  FRONT_PASSING,     // nothing is decided here, or all is
  FRONT_LOOKING,     // a look-up is on its way
  FRONT_COLLECTING,  // the decision wants the body
  FRONT_LINGERING,   // the answer waits for the end of the body
  FRONT_ANSWERED     // refused
} front_phase;

// One stream; made and freed on its worker. It may end inside any call that
// answers a request or lets one go on: outside a filter call Envoy destroys it at
// once. Whoever makes such a call has set the phase before, and touches nothing of
// the stream afterwards.
typedef struct front_stream {
  const front_config *config;  // outlives the stream
  const front_route *route;    // during the first hook, and kept while it waits
  front_lookup *lookups;     // the stream's references, the latest first
  front_lookup *deadline;    // of the body, a reference of the stream's own; or NULL
  size_t holding;            // bytes of the body that count as held back
  uint16_t connection;       // which counter of connections they count in
  front_result *refusal;     // FRONT_LINGERING: what is answered, owned; NULL: Envoy answers
  front_phase phase;
  bool begun;  // the headers have come here
  bool ended;  // the whole request has been received
  bool held;   // headers were stopped so that the body comes to the hooks
  bool kept;   // route is a reference of the stream's own
  bool strips;   // its route takes a part of the path away
  bool lingers;  // it counts among those that wait to be answered
} front_stream;

// The body of a request, for a decision.
typedef struct front_body {
  uint8_t state;
  bool in_hook;  // of request_body: the latest piece is not buffered yet
  char *data;    // FRONT_BODY_READ; owned
  size_t len;
} front_body;

// Headers on the stack before the heap is used; Envoy's default limit is 100.
#define FRONT_HEADERS_HERE 128

// All headers of a request, or all trailers; views into Envoy's memory.
typedef struct front_headers {
  dm_envoy_header *h;
  size_t n;
  dm_envoy_header here[FRONT_HEADERS_HERE];
} front_headers;

// Starts a look-up of the stream. False if that is impossible.
bool front_lookup_start(dm_filter_envoy f, front_stream *s, const uint8_t hash[FRONT_HASH], char *plugin, size_t len);
// Starts the deadline of the body that the stream waits for. False if that is
// impossible.
bool front_deadline_start(dm_filter_envoy f, front_stream *s);
// Gives up the stream's look-ups and its deadline. No event of theirs comes into being afterwards;
// one that is on its way finds that nobody waits.
void front_lookup_drop_all(front_stream *s);

// References of a route, from any thread.
void front_route_keep(const front_route *r);
void front_route_release(const front_route *r);

// Makes a stream ready to hold its body back.
void front_budget_open(dm_filter_envoy f, front_stream *s);
// Counts that the stream holds back that many bytes, which never become fewer.
// False if that is more than there may be: the request must be refused.
bool front_budget_hold(front_stream *s, size_t bytes);
// Counts that it holds none any more.
void front_budget_release(front_stream *s);
// How many bytes are held back, for tests.
size_t front_budget_held(void);

// Size of the body so far.
size_t front_body_size(dm_filter_envoy f, bool in_hook);
// Reads the body so far; the caller releases it.
front_body front_body_read(dm_filter_envoy f, bool in_hook, bool ended);
void front_body_release(front_body *b);
// Puts other bytes in the place of the body.
bool front_body_replace(dm_filter_envoy f, bool in_hook, front_text bytes);

// Makes a refusal, or without one a request that the route itself answers, wait for
// the end of the request. False if there is nothing to wait for.
bool front_linger(dm_filter_envoy f, front_stream *s, const front_result *refusal);
// Counts that the stream waits no more.
void front_linger_end(front_stream *s);
// How many wait, for tests.
int front_lingering(void);
// Whether no upstream will get the request.
bool front_leads_nowhere(dm_filter_envoy f);
// Whether the attribute of the protocol says HTTP/2 or later.
bool front_is_http2(dm_envoy_buffer protocol);
// Sends a refusal, which was noted unless it is that of a fault. The stream may be
// gone afterwards.
void front_refuse(dm_filter_envoy f, const front_config *c, const front_result *r);

// Applies the outcome of a decision to the request; waited says that it took time.
// Returns false if the request was answered: it must not go on, and its stream may
// be gone.
bool front_apply(dm_filter_envoy f, const front_config *c, const front_route *route, bool waited, const front_body *body,
                 front_result *r);
// Answers 503 without Go's help; c may be NULL. The stream may be gone afterwards.
void front_refuse_broken(dm_filter_envoy f, const front_config *c);
// Answers where the route should say which chain it has, and says nothing.
void front_refuse_unmarked(dm_filter_envoy f, const front_config *c);
// Answers 503 because too many bodies are held back, or 408 because this one took
// too long. The stream may be gone afterwards.
void front_refuse_body(dm_filter_envoy f, const front_config *c, bool late);

#define LITERAL(s) {(s), sizeof(s) - 1}

// What became of a request, for logs and counters; see note.c. All of it is said
// before the reply that may end the stream.
void front_counters_define(dm_config_envoy e, front_config *c);
void front_figures_define(dm_config_envoy e, front_config *c);
// Shows what the token caches count, if it is time for that.
void front_figures(dm_filter_envoy f, const front_config *c);
void front_note_allowed(dm_filter_envoy f, const front_config *c, bool waited);
// Before another route is selected: which one it was.
void front_note_route(dm_filter_envoy f);
void front_note_issued(dm_filter_envoy f, const front_config *c);
void front_note_refused(dm_filter_envoy f, const front_config *c, dm_module_buffer reason);
void front_note_who(dm_filter_envoy f, const front_result *r);
// A decision to refuse, once, however long its answer waits.
void front_note_refusal(dm_filter_envoy f, const front_config *c, const front_result *r);
// A request begins to wait: if nothing else is said any more, it was never decided.
void front_note_waiting(dm_filter_envoy f);
// Envoy answers by itself what was not decided yet.
void front_note_undecided(dm_filter_envoy f, const front_config *c);
// Removes client-sent identity and hand-over headers in every spelling that a
// server could take for them, unless that was done before. False means that they
// may still be there: the request must not go on.
bool front_strip(dm_filter_envoy f, const front_config *c, bool handing_over);
// The same for trailers.
bool front_strip_trailers(dm_filter_envoy f);
// The same for headers or trailers that have been read.
bool front_strip_read(dm_filter_envoy f, dm_header_type type, front_headers *all, bool handing_over);

// Reads all headers. False if that is impossible; otherwise the caller releases them.
bool front_headers_read(dm_filter_envoy f, dm_header_type type, front_headers *all);
void front_headers_free(front_headers *all);

// Removes what clients may not say and writes where the request comes from, where the
// listener leaves that to the filter. It comes before anything else, so that whoever
// answers the request, its log tells what the gateway saw. False means that what a
// client said may still be there: the request must not go on.
bool front_forwarded(dm_filter_envoy f, const front_config *c);
// Tells the OAuth server the scheme that a trusted client named, on such a listener.
void front_forward_proto(dm_filter_envoy f, const front_config *c);

#endif
