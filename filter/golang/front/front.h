// What the front in C and Go share. The front stands before the official interface for Go of
// Envoy's contrib build: it enters Go once for a request that passes with what is known, and
// hands all others to the official interface.
#ifndef MESHGATE_GOLANG_FRONT_H
#define MESHGATE_GOLANG_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Most headers of a request that is decided here, and bytes of their names and values.
#define FRONT_SHOWN 128
#define FRONT_BYTES 16384
// Bytes for the values of identity headers; engine.BufferSize.
#define FRONT_BUFFER 8192
// Number of identity headers; contract.NumIdentityHeaders.
#define FRONT_IDENTITY_HEADERS 7

// A text as Envoy copies it for Go; a string of Go is laid out alike.
typedef struct front_text {
  const char *ptr;
  ptrdiff_t len;
} front_text;

// Part of front_result.buffer.
typedef struct front_span {
  uint32_t off, len;
} front_span;

// What a request shows to a decision. Its texts are the front's own copies.
typedef struct front_request {
  uint64_t config;
  front_text *sent;  // names and values in turn
  uint32_t headers;  // how many
  bool http2;        // HTTP/2 or later
  bool whole;        // there is no body
  bool breathe;      // pass through Go's scheduler after the decision
} front_request;

// What lets it pass; golang.Edits.
typedef struct front_result {
  uint64_t remove[FRONT_SHOWN / 64];
  front_span identity[FRONT_IDENTITY_HEADERS];
  int path;
  bool strip;
  char buffer[FRONT_BUFFER];
} front_result;

// ---- Go, called by the front; none of them panics or blocks ----

// Says which id the configuration has got that was made last, and that one is about to go.
extern void meshgateMade(uint64_t id);
extern void meshgateGone(uint64_t id);
// Whether a request passes with what is known. False has no effect.
extern bool meshgatePass(front_request *q, front_result *r);

#endif
