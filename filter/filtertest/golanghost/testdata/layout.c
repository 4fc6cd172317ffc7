// Compiled by declared_test.go: what the front declares, beside what Envoy does.
#include <stddef.h>

// Envoy's first, then the front's under other names.
typedef struct {
  const char *p;
  ptrdiff_t n;
} GoString;
#include <api.h>
#define envoyGoFilterHttpCopyHeaders front_CopyHeaders
#define envoyGoFilterHttpSetHeaderHelper front_SetHeaderHelper
#define envoyGoFilterHttpRemoveHeader front_RemoveHeader
#define envoyGoFilterHttpCopyTrailers front_CopyTrailers
#define envoyGoFilterHttpRemoveTrailer front_RemoveTrailer
#define envoyGoFilterHttpSendLocalReply front_SendLocalReply
#define envoyGoFilterHttpGetIntegerValue front_GetIntegerValue
#define envoyGoFilterHttpFinalize front_Finalize
#include "../../../golang/front/api.h"
#undef envoyGoFilterHttpCopyHeaders
#undef envoyGoFilterHttpSetHeaderHelper
#undef envoyGoFilterHttpRemoveHeader
#undef envoyGoFilterHttpCopyTrailers
#undef envoyGoFilterHttpRemoveTrailer
#undef envoyGoFilterHttpSendLocalReply
#undef envoyGoFilterHttpGetIntegerValue
#undef envoyGoFilterHttpFinalize

#define ALIKE(ours, theirs) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(&front_##ours), __typeof__(&envoyGoFilterHttp##theirs)), #ours)
ALIKE(CopyHeaders, CopyHeaders);
ALIKE(SetHeaderHelper, SetHeaderHelper);
ALIKE(RemoveHeader, RemoveHeader);
ALIKE(CopyTrailers, CopyTrailers);
ALIKE(RemoveTrailer, RemoveTrailer);
ALIKE(SendLocalReply, SendLocalReply);
ALIKE(GetIntegerValue, GetIntegerValue);
ALIKE(Finalize, Finalize);

#define SAME(ours, our, theirs, their) \
  _Static_assert(sizeof(ours) == sizeof(theirs) && offsetof(ours, our) == offsetof(theirs, their) && \
                     sizeof(((ours *)0)->our) == sizeof(((theirs *)0)->their), #ours "." #our)
SAME(api_text, len, Cstring, len);
SAME(api_request, plugin_name, httpRequest, plugin_name);
SAME(api_request, config_id, httpRequest, configId);
SAME(api_request, worker_id, httpRequest, worker_id);
SAME(api_request, is_golang_processing_log, httpRequest, is_golang_processing_log);
SAME(api_state, req, processState, req);
SAME(api_state, is_encoding, processState, is_encoding);
SAME(api_state, state, processState, state);
SAME(api_config, config_ptr, httpConfig, config_ptr);
SAME(api_config, is_route_config, httpConfig, is_route_config);
SAME(api_config, concurrency, httpConfig, concurrency);
_Static_assert((int)API_OK == (int)CAPIOK && (int)API_HEADER_SET == (int)HeaderSet, "values");
