// A stand-in for Envoy and for the Go side, around the real C front. Stricter than
// any Envoy: a reply outside a filter call destroys the stream inside
// send_response, what has been destroyed is poisoned, a callback on a stream that
// is gone ends the program, a route table goes while streams of it wait, and an
// event may be committed only while its stream is there.
#ifndef HOST_H
#define HOST_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../lookup.h"

#define CHECK(condition, ...)                                       \
  do {                                                              \
    if (condition) break;                                           \
    fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
    fprintf(stderr, __VA_ARGS__);                                   \
    fprintf(stderr, "\n");                                          \
    abort();                                                        \
  } while (0)

#define HEADERS 16
#define SCRIPT 16

// The chains of a table, of which one is there twice; the last letter of a chain is its name.
#define HOST_CHAINS "a\n\nb\na"
#define HOST_TABLE "marked chains\n" HOST_CHAINS
#define HOST_PLAIN_TABLE "chains\n" HOST_CHAINS
// What names no chain, but says that there is none.
#define HOST_NO_CHAIN '-'
// What a route says of its path, and how the path of a request that passes begins then.
#define HOST_CUT " 1/d"
#define HOST_BASE "/d/"

// What a request says of its token, in the query and at the beginning of its body.
#define HOST_QUERY "?token=a"
#define HOST_TOKEN "token=a"
#define HOST_REST "&b=c"
// The header of a token whose verdict is proven.
#define HOST_CREDENTIAL "authorization"
// The header of an identity, and what it says of a request whose body was shortened.
#define HOST_IDENTITY "x-consumer-custom-id"
#define HOST_HIDDEN "shortened"

// How the worker's Envoy behaves.
typedef struct host_mode {
  // The hook that destroys runs after the hook that ended the stream has returned
  // (Envoy 1.40), and not inside it.
  bool late_destroy;
  // continue_decoding ends in a local reply of a later filter.
  bool fails_behind;
  // A reply leaves the stream in place until the client has it.
  bool lingers;
  // The OAuth server has a route.
  bool oauth_route;
  // A stream that is answered before its request has ended is reset.
  bool http2;
  // The chain that the route names, of those of HOST_CHAINS, and a prefix to strip; 0 if it
  // says nothing.
  char chain;
} host_mode;

typedef struct host_field {
  char name[48], value[64];
  bool used;
} host_field;

// The address of every client.
#define HOST_PEER "192.0.2.1"

// One request on one worker.
typedef struct host_stream {
  struct host_worker *worker;
  host_mode mode;
  front_config *config;
  dm_route_module route;
  dm_filter_module module;  // NULL once destroyed
  struct host_link *link;
  struct host_stream *next;  // among those to be freed
  host_field headers[HEADERS], trailers[HEADERS];
  char buffered[4096], received[1024];
  size_t nbuffered, nreceived;
  int calls;      // filter calls under way
  bool gone;      // the stream has ended; only the rest of a hook may run
  bool replied, pending_reply, stopped, held_all, passed, handed_over, oauth_selected;
  bool sent_headers, sent_trailers, sent_end, seen_end;
  bool nowhere;  // the route has no cluster
  bool dropped;  // bytes of the body were thrown away
  bool refused_early;  // while the client was still sending
  unsigned status;
  // What the front says of the request.
  char decision[16], reason[32], noted_route[16], said[48];
  unsigned allowed, issued, refused;
  unsigned token;  // which one it has
  unsigned since;  // the newest revocation of that token which was over when the request came
} host_stream;

// What a scheduler keeps of a stream: weak, like Envoy's.
typedef struct host_link {
  atomic_int refs;
  host_stream *stream;  // worker only
} host_link;

typedef struct host_event {
  host_link *link;
  uint64_t id;
  struct host_event *next;
} host_event;

// A worker: its queue takes events from any thread.
typedef struct host_worker {
  pthread_mutex_t lock;
  pthread_cond_t more;
  host_event *first, *last;
  host_stream *dead;  // worker only: to be freed when the event is over
} host_worker;

void worker_init(host_worker *w);
// Runs the oldest event; false if there is none.
bool worker_run(host_worker *w);
// Ends an event: runs what was put off, frees what has gone.
void worker_settle(host_worker *w);

host_stream *stream_new(host_worker *w, host_mode mode, front_config *c, dm_route_module r, const char *script);
// Gives a stream a token, before its headers.
void stream_token(host_stream *s, unsigned token);
// The client sends. They do nothing on a stream that has gone.
void stream_headers(host_stream *s, bool end);
void stream_body(host_stream *s, const char *text, bool end);
void stream_trailers(host_stream *s);
// Envoy answers by itself: a time-out.
void stream_timeout(host_stream *s);
// The client resets, or has its answer.
void stream_reset(host_stream *s);

// ---- the Go side: what a request's path says is what is decided ----
//
// l a look-up, h further headers, b the body; then p passes without its token, n
// passes as it is, v passes by a token whose verdict is proven, f would pass, but its token cannot be hidden, r is refused, i is
// handed to the OAuth server, z is what a fault in Go leaves behind. A d at the
// beginning says that the route answers by itself.

// How look-ups are answered: inside meshgateResolve, or when asked to.
typedef enum { ANSWER_AT_ONCE, ANSWER_LATER, ANSWER_ELSEWHERE } go_answers;
extern go_answers go_mode;
// Answers the oldest open look-up; false if there is none. From any thread.
bool go_answer(void);
void go_drain(void);
extern atomic_int go_programs, go_sources;

// The tokens by which v passes. What is said of one is its newest revocation.
#define TOKENS 4
// Lets what was proven hold.
void go_lease(void);
// Revokes a token, or all of an owner, or begins anew, or takes the lease away until the next
// call; salt says which. From one thread.
void go_revoke(unsigned salt);
// The newest revocation of a token that is over.
unsigned go_revoked(unsigned token);
// How many look-ups and deadlines were given up before their end.
extern atomic_int go_given_up;

void tables(void);
void scenes(void);
void storm(int streams);

#endif
