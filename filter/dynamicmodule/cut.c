// Strips the prefix of a path. It needs nothing of Envoy, so that a test can compile it alone.

#include <stdlib.h>
#include <string.h>

#include "carried.h"

// What is to be done with the path: its first bytes give way to a base.
typedef struct cut {
  size_t prefix;
  front_text base;
} cut;

// Reads a cut: a space, the number of bytes and the base, which begins with a slash or is
// empty.
static bool read_cut(front_text said, cut *out) {
  size_t i = 1, n = 0;
  if (said.len < 2 || said.ptr[0] != ' ' || said.ptr[1] < '0' || said.ptr[1] > '9') return false;
  for (; i < said.len && said.ptr[i] >= '0' && said.ptr[i] <= '9'; i++) {
    if (n > FRONT_BODY) return false;
    n = n * 10 + (size_t)(said.ptr[i] - '0');
  }
  *out = (cut){n, {said.ptr + i, said.len - i}};
  return i == said.len || said.ptr[i] == '/';
}

// How many dots at the beginning of a text are a segment of their own.
static size_t dots(front_text t) {
  size_t n = 0;
  while (n < 2 && n < t.len && t.ptr[n] == '.') n++;
  return n == t.len || t.ptr[n] == '/' ? n : 0;
}

bool front_cut_path(front_text said, front_text path, front_text *out, size_t *prefix) {
  cut c;
  size_t end = 0;
  while (end < path.len && path.ptr[end] != '?' && path.ptr[end] != '#') end++;
  if (!read_cut(said, &c) || c.prefix > end) return false;
  front_text rest = {path.ptr + c.prefix, end - c.prefix};
  size_t n = dots(rest);
  rest = (front_text){rest.ptr + n, rest.len - n};
  bool whole = rest.len == 0 && c.base.len > 0;
  for (int slashes = n > 0 ? 2 : 1; slashes > 0 && rest.len > 0 && rest.ptr[0] == '/'; slashes--)
    rest = (front_text){rest.ptr + 1, rest.len - 1};
  size_t tail = (size_t)(path.ptr + path.len - rest.ptr), at = c.base.len;
  char *text = malloc(c.base.len + 1 + tail);
  if (text == NULL) return false;
  if (at > 0) memcpy(text, c.base.ptr, at);
  if (!whole) text[at++] = '/';
  memcpy(text + at, rest.ptr, tail);
  *out = (front_text){text, at + tail};
  *prefix = c.prefix;
  return true;
}
