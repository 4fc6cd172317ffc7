// Removes headers that only a gateway may set, where the listener does not.

#include <stdlib.h>
#include <string.h>

#include "lookup.h"
#include "reserved.h"

// Headers on the stack before the heap is used; Envoy's default limit is 100.
#define STRIP_INLINE 128

static bool strip(dm_filter_envoy f, dm_header_type type, bool handing_over) {
  dm_envoy_header inline_headers[STRIP_INLINE], *h = inline_headers;
  size_t n = DM_CALL(http_get_headers_size)(f, type);
  if (n > STRIP_INLINE) {
    h = malloc(n * sizeof(*h));
    if (h == NULL) return false;
  }
  bool ok = DM_CALL(http_get_headers)(f, type, h);
  for (size_t i = 0; ok && i < n; i++) {
    bool goes = type == DM_REQUEST_TRAILER ? front_reserved_trailer(h[i].key_ptr, h[i].key_length)
                                           : front_reserved(h[i].key_ptr, h[i].key_length, handing_over);
    if (!goes) continue;
    // Removing frees the name: it is copied, and later entries of the same name
    // go with it.
    char copy[256];
    size_t len = h[i].key_length;
    char *key = len <= sizeof(copy) ? copy : malloc(len);
    ok = key != NULL;
    if (!ok) break;
    memcpy(key, h[i].key_ptr, len);
    for (size_t j = i + 1; j < n; j++)
      if (h[j].key_length == len && memcmp(h[j].key_ptr, key, len) == 0) h[j].key_length = 0;
    dm_module_buffer name = {key, len}, none = {NULL, 0};
    DM_CALL(http_set_header)(f, type, name, none);
    if (key != copy) free(key);
  }
  if (h != inline_headers) free(h);
  return ok;
}

bool front_strip(dm_filter_envoy f, bool handing_over) { return strip(f, DM_REQUEST_HEADER, handing_over); }

bool front_strip_trailers(dm_filter_envoy f) { return strip(f, DM_REQUEST_TRAILER, false); }
