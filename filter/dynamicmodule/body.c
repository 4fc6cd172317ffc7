// Access to the body of a request. It comes in pieces; those that have passed the
// hook are buffered, the one the hook is called for has only been received.

#include <stdlib.h>
#include <string.h>

#include "lookup.h"

// Pieces on the stack before the heap is used.
#define BODY_PIECES 64

static bool separate(dm_filter_envoy f, bool in_hook) {
  return in_hook && !DM_CALL(http_received_buffered_request_body)(f);
}

size_t front_body_size(dm_filter_envoy f, bool in_hook) {
  size_t n = DM_CALL(http_get_body_size)(f, DM_BUFFERED_REQUEST_BODY);
  if (separate(f, in_hook)) n += DM_CALL(http_get_body_size)(f, DM_RECEIVED_REQUEST_BODY);
  return n;
}

// Copies one part of the body; room is what it has the size of.
static bool copy(dm_filter_envoy f, dm_body_type t, char *out, size_t room) {
  dm_envoy_buffer inline_pieces[BODY_PIECES], *pieces = inline_pieces;
  size_t n = DM_CALL(http_get_body_chunks_size)(f, t), at = 0;
  if (n > BODY_PIECES) pieces = malloc(n * sizeof(*pieces));
  if (pieces == NULL) return false;
  bool ok = n == 0 || DM_CALL(http_get_body_chunks)(f, t, pieces);
  for (size_t i = 0; ok && i < n; i++) {
    ok = pieces[i].length <= room - at;
    if (ok && pieces[i].length > 0) memcpy(out + at, pieces[i].ptr, pieces[i].length);
    at += pieces[i].length;
  }
  if (pieces != inline_pieces) free(pieces);
  return ok && at == room;
}

front_body front_body_read(dm_filter_envoy f, bool in_hook, bool ended) {
  front_body b = {FRONT_BODY_TOO_LARGE, in_hook, NULL, 0};
  size_t total = front_body_size(f, in_hook);
  if (total > FRONT_BODY) return b;
  if (!ended) {
    b.state = FRONT_BODY_UNREAD;
    return b;
  }
  size_t buffered = DM_CALL(http_get_body_size)(f, DM_BUFFERED_REQUEST_BODY);
  b.data = malloc(total + 1);
  // What cannot be read counts as too large: nothing is found in it.
  if (b.data == NULL) return b;
  if (!copy(f, DM_BUFFERED_REQUEST_BODY, b.data, buffered)) return b;
  if (separate(f, in_hook) && !copy(f, DM_RECEIVED_REQUEST_BODY, b.data + buffered, total - buffered)) return b;
  b.state = FRONT_BODY_READ;
  b.len = total;
  return b;
}

void front_body_release(front_body *b) { free(b->data); }

bool front_body_replace(dm_filter_envoy f, bool in_hook, front_text bytes) {
  dm_body_type t = in_hook ? DM_RECEIVED_REQUEST_BODY : DM_BUFFERED_REQUEST_BODY;
  dm_module_buffer data = {bytes.ptr, bytes.len};
  size_t buffered = DM_CALL(http_get_body_size)(f, DM_BUFFERED_REQUEST_BODY);
  if (buffered > 0 && !DM_CALL(http_drain_body)(f, DM_BUFFERED_REQUEST_BODY, buffered)) return false;
  if (in_hook) {
    size_t received = DM_CALL(http_get_body_size)(f, t);
    if (received > 0 && !DM_CALL(http_drain_body)(f, t, received)) return false;
  }
  return bytes.len == 0 || DM_CALL(http_append_body)(f, t, data);
}
