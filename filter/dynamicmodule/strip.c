// Removes headers that only a gateway may set, where the listener does not.

#include <stdlib.h>
#include <string.h>

#include "lookup.h"

// Headers on the stack before the heap is used; Envoy's default limit is 100.
#define STRIP_INLINE 128

extern const dm_module_buffer front_identity_names[FRONT_IDENTITY_HEADERS];

// Names that begin like this are ours or Envoy's to set, but for one that Envoy
// has written when we get here (use_remote_address).
static const char ours[] = "x-meshgate-", envoys[] = "x-envoy-", external[] = "x-envoy-external-address";
// Written by the listener for the OAuth server, see contract.HeaderOAuthProto.
static const char proto[] = "x-meshgate-proto";
// The listener removes it from strangers and leaves that of proxies it trusts;
// a twin of it is nobody's.
static const char prefix[] = "x-forwarded-prefix";

#define IS(h, name) ((h)->key_length == sizeof(name) - 1 && memcmp((h)->key_ptr, name, sizeof(name) - 1) == 0)
#define BEGINS(h, name) ((h)->key_length >= sizeof(name) - 1 && matches((h)->key_ptr, name, sizeof(name) - 1))

// CGI-like servers read x_consumer_id and x-consumer_id as x-consumer-id, so a
// separator of a name matches in either spelling.
static bool matches(const char *got, const char *want, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char c = got[i] == '_' ? '-' : got[i];
    if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
    if (c != want[i]) return false;
  }
  return true;
}

static bool forbidden(const dm_envoy_header *h, bool handing_over) {
  if (h->key_length < 2 || (h->key_ptr[0] != 'x' && h->key_ptr[0] != 'X') || (h->key_ptr[1] != '-' && h->key_ptr[1] != '_')) return false;
  if (BEGINS(h, ours)) return !(handing_over && IS(h, proto));
  if (BEGINS(h, envoys)) return !IS(h, external);
  if (h->key_length == sizeof(prefix) - 1 && BEGINS(h, prefix)) return !IS(h, prefix);
  for (size_t i = 0; i < FRONT_IDENTITY_HEADERS; i++) {
    const dm_module_buffer *name = &front_identity_names[i];
    if (h->key_length == name->length && matches(h->key_ptr, name->ptr, name->length)) return true;
  }
  return false;
}

static bool strip(dm_filter_envoy f, dm_header_type type, bool handing_over) {
  dm_envoy_header inline_headers[STRIP_INLINE], *h = inline_headers;
  size_t n = DM_CALL(http_get_headers_size)(f, type);
  if (n > STRIP_INLINE) {
    h = malloc(n * sizeof(*h));
    if (h == NULL) return false;
  }
  bool ok = DM_CALL(http_get_headers)(f, type, h);
  for (size_t i = 0; ok && i < n; i++) {
    if (!forbidden(&h[i], handing_over)) continue;
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
