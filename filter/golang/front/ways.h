// Which way each request of a worker goes: all of its calls must go the same one.
#ifndef MESHGATE_GOLANG_WAYS_H
#define MESHGATE_GOLANG_WAYS_H

#include "api.h"

typedef enum front_way {
  FRONT_UNKNOWN = 0,  // it has not been seen yet
  FRONT_PASSED,       // the front has let it pass; the official interface knows nothing of it
  FRONT_HANDED_ON,    // the official interface has it
} front_way;

// All are called on the worker of the request.
front_way front_way_of(const api_request *r);
// False if memory is exhausted: the request then stays unknown.
bool front_way_set(const api_request *r, front_way way);
void front_way_forget(const api_request *r);

#endif
