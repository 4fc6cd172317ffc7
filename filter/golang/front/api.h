// What the front uses of Envoy's interface for Go: the subset that is the same in Envoy 1.33 to
// 1.39. filter/filtertest/golanghost holds it against the sources of those that it lists. Envoy
// passes structs of these layouts, so what has another size is not that interface.
#ifndef MESHGATE_GOLANG_API_H
#define MESHGATE_GOLANG_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct api_text {
  const char *data;
  uint64_t len;
} api_text;

typedef struct api_request {
  api_text plugin_name;
  uint64_t config_id;
  uint32_t worker_id;
  _Atomic(int) is_golang_processing_log;
} api_request;

typedef struct api_state {
  api_request *req;
  int is_encoding;
  int state;
} api_state;

typedef struct api_config {
  uint64_t plugin_name_ptr, plugin_name_len, config_ptr, config_len;
  int is_route_config;
  uint32_t concurrency;
} api_config;

_Static_assert(sizeof(api_text) == 16, "Cstring");
_Static_assert(sizeof(api_request) == 32 && offsetof(api_request, config_id) == 16, "httpRequest");
_Static_assert(sizeof(api_state) == 16 && offsetof(api_state, state) == 12, "processState");
_Static_assert(sizeof(api_config) == 40 && offsetof(api_config, is_route_config) == 32, "httpConfig");

enum { API_OK = 0 };
enum { API_LOCAL_REPLY = 1, API_CONTINUE = 2 };
enum { API_PROCESSING_HEADER = 1, API_PROCESSING_TRAILER = 6 };
enum { API_VALUE_PROTOCOL = 3 };
enum { API_HTTP2 = 2 };
enum { API_HEADER_SET = 0 };
enum { API_NORMAL_FINALIZE = 0 };

// ---- Envoy, called by the front ----

extern int envoyGoFilterHttpCopyHeaders(void *s, void *strs, void *buf);
extern int envoyGoFilterHttpSetHeaderHelper(void *s, void *key, int key_len, void *value, int value_len, unsigned act);
extern int envoyGoFilterHttpRemoveHeader(void *s, void *key, int key_len);
extern int envoyGoFilterHttpCopyTrailers(void *s, void *strs, void *buf);
extern int envoyGoFilterHttpRemoveTrailer(void *s, void *key, int key_len);
extern int envoyGoFilterHttpSendLocalReply(void *s, int code, void *body, int body_len, void *headers, int n, long long grpc,
                                           void *details, int details_len);
extern int envoyGoFilterHttpGetIntegerValue(void *r, int id, uint64_t *value);
extern void envoyGoFilterHttpFinalize(void *r, int reason);

// ---- the official interface, called by the front; the link gives it these names ----

extern uint64_t sdkNewHttpPluginConfig(api_config *c);
extern uint64_t sdkMergeHttpPluginConfig(uint64_t name, uint64_t len, uint64_t parent, uint64_t child);
extern void sdkDestroyHttpPluginConfig(uint64_t id, int64_t need_delay);
extern uint64_t sdkOnHttpHeader(api_state *s, uint64_t end, uint64_t n, uint64_t bytes);
extern uint64_t sdkOnHttpData(api_state *s, uint64_t end, uint64_t buffer, uint64_t len);
extern void sdkOnHttpLog(api_request *r, uint64_t type, api_state *dec, api_state *enc, uint64_t a, uint64_t b, uint64_t c,
                         uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h);
extern void sdkOnHttpStreamComplete(api_request *r);
extern void sdkOnHttpDestroy(api_request *r, uint64_t reason);
extern void sdkRequestSemaDec(api_request *r);
extern void sdkCleanUp(void);

#endif
