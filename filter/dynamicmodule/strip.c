// Removes headers that only a gateway may set, where the listener does not.

#include <stdlib.h>
#include <string.h>

#include "lookup.h"
#include "reserved.h"

bool front_headers_read(dm_filter_envoy f, dm_header_type type, front_headers *all) {
  all->n = DM_CALL(http_get_headers_size)(f, type);
  all->h = all->here;
  if (all->n > FRONT_HEADERS_HERE) {
    all->h = malloc(all->n * sizeof(*all->h));
    if (all->h == NULL) return false;
  }
  if (DM_CALL(http_get_headers)(f, type, all->h)) return true;
  front_headers_free(all);
  return false;
}

void front_headers_free(front_headers *all) {
  if (all->h != all->here) free(all->h);
}

bool front_strip_read(dm_filter_envoy f, dm_header_type type, front_headers *all, bool handing_over) {
  dm_envoy_header *h = all->h;
  for (size_t i = 0; i < all->n; i++) {
    bool goes = type == DM_REQUEST_TRAILER ? front_reserved_trailer(h[i].key_ptr, h[i].key_length)
                                           : front_reserved(h[i].key_ptr, h[i].key_length, handing_over);
    if (!goes) continue;
    // Removing frees the name: it is copied, and later entries of the same name
    // go with it.
    char copy[256];
    size_t len = h[i].key_length;
    char *key = len <= sizeof(copy) ? copy : malloc(len);
    if (key == NULL) return false;
    memcpy(key, h[i].key_ptr, len);
    for (size_t j = i + 1; j < all->n; j++)
      if (h[j].key_length == len && memcmp(h[j].key_ptr, key, len) == 0) h[j].key_length = 0;
    dm_module_buffer name = {key, len}, none = {NULL, 0};
    DM_CALL(http_set_header)(f, type, name, none);
    if (key != copy) free(key);
  }
  return true;
}

static bool strip(dm_filter_envoy f, dm_header_type type, bool handing_over) {
  front_headers all;
  if (!front_headers_read(f, type, &all)) return false;
  bool ok = front_strip_read(f, type, &all, handing_over);
  front_headers_free(&all);
  return ok;
}

bool front_strip(dm_filter_envoy f, const front_config *c, bool handing_over) {
  if (c->listener_strips || c->forwarding != FRONT_FORWARDING_NONE) return true;
  return strip(f, DM_REQUEST_HEADER, handing_over);
}

bool front_strip_trailers(dm_filter_envoy f) { return strip(f, DM_REQUEST_TRAILER, false); }
