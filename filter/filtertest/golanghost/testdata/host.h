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

enum { PROCESSING_HEADER = 1, WAITING_DATA = 2, WAITING_ALL_DATA = 3, PROCESSING_DATA = 4, PROCESSING_TRAILER = 6, DONE = 7 };
enum { STATUS_RUNNING = 0, STATUS_LOCAL_REPLY = 1, STATUS_CONTINUE = 2, STATUS_STOP_AND_BUFFER = 3 };
enum { VALUE_PROTOCOL = 3, VALUE_REMOTE_ADDRESS = 8, VALUE_TLS = 100 };
#define MAX_HEADERS 128

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
  processState state;
  headers headers, trailers;
  text body;
  event reply;
  int http2, tls, oauth_route, has_body, has_trailers, trailers_shown, showing, refreshed, destroyed, over, passed, replied;
} stream;

void handle(stream *s, uint64_t status);
CAPIStatus property(stream *s, uint64_t *data, int *len);

#endif
