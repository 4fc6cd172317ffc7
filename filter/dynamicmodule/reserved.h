// What clients may not say of themselves; contract.IsReserved.
#ifndef MESHGATE_RESERVED_H
#define MESHGATE_RESERVED_H

#include <stdbool.h>
#include <stddef.h>

// Reports whether a request header must be removed, by its name in any case.
// handing_over says that the request goes to the OAuth server.
bool front_reserved(const char *name, size_t len, bool handing_over);

// The same for a request trailer; contract.IsReservedTrailer.
bool front_reserved_trailer(const char *name, size_t len);

#endif
