// What Envoy's api.h for Go declares, as far as the host needs it, and the host's own structs.
#ifndef HOST_H
#define HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *data;
  uint64_t len;
} Cstring;

typedef struct {
  const char *p;
  ptrdiff_t n;
} GoString;

struct httpRequest;

typedef struct {
  struct httpRequest *req;
  int is_encoding;
  int state;
} processState;

typedef struct httpRequest {
  Cstring plugin_name;
  uint64_t configId;
  uint32_t worker_id;
  _Atomic(int) is_golang_processing_log;
} httpRequest;

typedef struct {
  uint64_t plugin_name_ptr, plugin_name_len, config_ptr, config_len;
  int is_route_config;
  uint32_t concurrency;
} httpConfig;

typedef enum { Set, Append, Prepend } bufferAction;
typedef enum { HeaderSet, HeaderAdd } headerAction;

typedef enum { CAPIOK = 0, CAPIFilterIsDestroy = -2, CAPINotInGo = -3, CAPIInvalidPhase = -4, CAPIYield = -6 } CAPIStatus;

enum { WAITING_HEADER = 0, PROCESSING_HEADER = 1, WAITING_DATA = 2, WAITING_ALL_DATA = 3, PROCESSING_DATA = 4, WAITING_TRAILER = 5, PROCESSING_TRAILER = 6, DONE = 7 };
enum { STATUS_RUNNING = 0, STATUS_LOCAL_REPLY = 1, STATUS_CONTINUE = 2, STATUS_STOP_AND_BUFFER = 3, STATUS_WATERMARK = 4, STATUS_NO_BUFFER = 5 };
enum { LOG_DOWNSTREAM_START = 4, LOG_DOWNSTREAM_PERIODIC = 5, LOG_DOWNSTREAM_END = 6 };
enum { HTTP10 = 0, HTTP11 = 1, HTTP2 = 2, HTTP3 = 3, PROTOCOLS };
enum { VALUE_PROTOCOL = 3, VALUE_REMOTE_ADDRESS = 8, VALUE_TLS = 100 };
#define MAX_HEADERS 512
#define WORKERS 4          // threads that requests belong to
#define MAX_SHOWN 256      // pieces of a body that the library keeps
#define PIECE 16384        // bytes that Envoy reads at once
#define BUFFER_LIMIT 32768 // of Envoy's buffers

typedef struct {
  char *p;
  size_t n;
} text;

typedef struct {
  text name, value;
} header;

typedef struct {
  header of[MAX_HEADERS];
  size_t n;
} headers;

enum event_kind { EVENT_CONTINUE, EVENT_REPLY, EVENT_SET, EVENT_REMOVE, EVENT_REMOVE_TRAILER, EVENT_REFRESH, EVENT_PROPERTY };

struct stream;
struct worker;

typedef struct event {
  struct event *next;
  struct stream *s;
  enum event_kind kind;
  uint64_t status;
  long long grpc;
  text name, value, body, details;
  headers *headers;
  int add;
  uint64_t *value_data;
  int *value_len, *rc;
} event;

typedef struct stream {
  httpRequest request;  // first: the library knows the stream by it
  processState state, encoding;
  struct worker *worker;
  headers headers, trailers;
  text body;                // what the client sends
  size_t arrived;           // as much of it has
  text buffered;            // Envoy's buffer, which the library does not see
  int has_buffer;           // and whether Envoy has made it
  text *shown[MAX_SHOWN];   // what the library was shown, and keeps
  size_t shown_n;
  text out;                 // the body that went on
  event reply;
  int protocol, tls, oauth_route, has_body, has_trailers, open;
  char property[32];        // what the library was told
  long connection;
  size_t piece;             // bytes that arrive at once
  int outcomes;             // what it came to: one in the end
  int end_stream, do_end_stream, trailers_arrived, stopped, refreshed, destroyed, over, passed, replied;
} stream;

CAPIStatus property(stream *s, const char *name, uint64_t *data, int *len);

#endif
