// Says where a request comes from, and removes what only a gateway may say, on listeners
// that leave both to the filter. All of it is one pass over the headers: each mutation of
// the listener would look a header up, for which Envoy builds an index of all headers.

#include <string.h>

#include "lookup.h"

// The headers by which upstreams learn of it. Envoy itself writes X-Forwarded-Proto and
// -Port, and adds the peer to X-Forwarded-For, before a route is selected.
enum { CLIENTS, HOST, PATH, PREFIX, STANDARD, CLIENT, NAMES };
static const dm_module_buffer names[NAMES] = {
    LITERAL("x-forwarded-for"),    LITERAL("x-forwarded-host"), LITERAL("x-forwarded-path"),
    LITERAL("x-forwarded-prefix"), LITERAL("forwarded"),        LITERAL("x-real-ip"),
};
static const dm_module_buffer host_name = LITERAL(":authority"), path_name = LITERAL(":path");
// Envoy writes the client's address there, without a port.
static const dm_module_buffer peer_name = LITERAL("x-envoy-external-address");

// The longest address that is kept of a list, with the name of an interface.
#define ADDRESS 128

// What a request says; pointers into Envoy's memory. Those without a pointer are not there.
typedef struct front_said {
  dm_module_buffer claims[NAMES];
  dm_module_buffer host, path, peer;
} front_said;

static bool is(const dm_envoy_header *h, dm_module_buffer name) {
  return h->key_length == name.length && memcmp(h->key_ptr, name.ptr, name.length) == 0;
}

// Notes what a header says, if it is one of those.
static void hear(front_said *said, const dm_envoy_header *h) {
  dm_module_buffer value = {h->value_ptr != NULL ? h->value_ptr : "", h->value_length};
  for (size_t i = 0; i < NAMES; i++)
    if (is(h, names[i])) said->claims[i] = value;
  if (is(h, host_name)) said->host = value;
  if (is(h, peer_name)) said->peer = value;
  // Without the query, which may hold credentials.
  if (is(h, path_name)) {
    const char *query = memchr(value.ptr, '?', value.length);
    if (query != NULL) value.length = (size_t)(query - value.ptr);
    said->path = value;
  }
}

static void drop(dm_filter_envoy f, const front_said *said, int i) {
  static const dm_module_buffer none = {NULL, 0};
  if (said->claims[i].ptr != NULL) DM_CALL(http_set_header)(f, DM_REQUEST_HEADER, names[i], none);
}

// Writes a header in the place of all of its name. One that is not there is appended, which
// needs no search. The value is not one of the header itself.
static void put(dm_filter_envoy f, const front_said *said, int i, dm_module_buffer value) {
  if (said->claims[i].ptr != NULL)
    DM_CALL(http_set_header)(f, DM_REQUEST_HEADER, names[i], value);
  else if (value.length > 0)
    DM_CALL(http_add_header)(f, DM_REQUEST_HEADER, names[i], value);
}

// Leaves the last address of the list, which Envoy has added. Without an address of the peer
// it has added none.
static void only_peer(dm_filter_envoy f, const front_said *said) {
  char copy[ADDRESS];
  dm_module_buffer list = said->claims[CLIENTS], last = {copy, 0};
  if (list.ptr == NULL) return;
  size_t at = list.length;
  while (at > 0 && list.ptr[at - 1] != ',' && list.ptr[at - 1] != ' ') at--;
  if (at == 0 && said->peer.ptr != NULL) return;
  // A header must not be set to a part of itself.
  if (said->peer.ptr != NULL && list.length - at <= sizeof(copy)) {
    last.length = list.length - at;
    memcpy(copy, list.ptr + at, last.length);
  }
  put(f, said, CLIENTS, last);
}

static void tell(dm_filter_envoy f, const front_config *c, const front_said *said) {
  bool trusted = c->forwarding == FRONT_FORWARDING_TRUSTED;
  if (!trusted) {
    only_peer(f, said);
    drop(f, said, PREFIX);
    drop(f, said, STANDARD);
  }
  if (!trusted || said->claims[HOST].ptr == NULL) put(f, said, HOST, said->host);
  if (!trusted || said->claims[PATH].ptr == NULL) put(f, said, PATH, said->path);
  put(f, said, CLIENT, said->peer);
}

bool front_forwarded(dm_filter_envoy f, const front_config *c) {
  front_headers all;
  front_said said;
  if (c->forwarding == FRONT_FORWARDING_NONE) return true;
  if (!front_headers_read(f, DM_REQUEST_HEADER, &all)) return false;
  memset(&said, 0, sizeof(said));
  for (size_t i = 0; i < all.n; i++) hear(&said, &all.h[i]);
  bool ok = front_strip_read(f, DM_REQUEST_HEADER, &all, false);
  front_headers_free(&all);
  if (ok) tell(f, c, &said);
  return ok;
}

void front_forward_proto(dm_filter_envoy f, const front_config *c) {
  static const dm_module_buffer from = LITERAL("x-forwarded-proto"), to = LITERAL("x-meshgate-proto");
  dm_envoy_buffer v = {NULL, 0};
  if (c->forwarding != FRONT_FORWARDING_TRUSTED) return;
  if (!DM_CALL(http_get_header)(f, DM_REQUEST_HEADER, from, &v, 0, NULL) || v.length == 0) return;
  dm_module_buffer value = {v.ptr, v.length};
  DM_CALL(http_add_header)(f, DM_REQUEST_HEADER, to, value);
}
