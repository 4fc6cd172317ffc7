// Compiled by declared_test.go: what the host declares, beside what Envoy does.
#include <stddef.h>

// Envoy's first, then the host's under other names.
#include <api.h>
#define Cstring host_Cstring
#define httpRequest host_httpRequest
#define processState host_processState
#define httpConfig host_httpConfig
#define bufferAction host_bufferAction
#define Set host_Set
#define Append host_Append
#define Prepend host_Prepend
#define headerAction host_headerAction
#define HeaderSet host_HeaderSet
#define HeaderAdd host_HeaderAdd
#define CAPIStatus host_CAPIStatus
#define CAPIOK host_CAPIOK
#define CAPIFilterIsDestroy host_CAPIFilterIsDestroy
#define CAPINotInGo host_CAPINotInGo
#define CAPIInvalidPhase host_CAPIInvalidPhase
#define CAPIYield host_CAPIYield
#include "host.h"
#undef Cstring
#undef httpRequest
#undef processState
#undef httpConfig
#undef Set
#undef Append
#undef Prepend
#undef HeaderSet
#undef HeaderAdd
#undef CAPIOK
#undef CAPIFilterIsDestroy
#undef CAPINotInGo
#undef CAPIInvalidPhase
#undef CAPIYield

#define SAME(type, field) \
  _Static_assert(sizeof(host_##type) == sizeof(type) && offsetof(host_##type, field) == offsetof(type, field) && \
                     sizeof(((host_##type *)0)->field) == sizeof(((type *)0)->field), #type "." #field)
SAME(Cstring, data);
SAME(Cstring, len);
SAME(httpRequest, plugin_name);
SAME(httpRequest, configId);
SAME(httpRequest, worker_id);
SAME(httpRequest, is_golang_processing_log);
SAME(processState, req);
SAME(processState, is_encoding);
SAME(processState, state);
SAME(httpConfig, plugin_name_ptr);
SAME(httpConfig, plugin_name_len);
SAME(httpConfig, config_ptr);
SAME(httpConfig, config_len);
SAME(httpConfig, is_route_config);
SAME(httpConfig, concurrency);

#define EQUAL(name) _Static_assert((int)host_##name == (int)name, #name)
EQUAL(Set);
EQUAL(Append);
EQUAL(Prepend);
EQUAL(HeaderSet);
EQUAL(HeaderAdd);
EQUAL(CAPIOK);
EQUAL(CAPIFilterIsDestroy);
EQUAL(CAPINotInGo);
EQUAL(CAPIInvalidPhase);
EQUAL(CAPIYield);
