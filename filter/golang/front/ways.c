// A table for each thread, as Envoy calls about a request on one thread only. Keys are
// addresses of requests, which are unique as long as a request is not finalised.

#include <stdbool.h>
#include <stdlib.h>

#include "ways.h"

#define FIRST_SIZE 256  // a power of two

typedef struct entry {
  const api_request *request;  // NULL: free
  front_way way;
} entry;

// The size is a power of two, and at most half of the table is used.
static _Thread_local struct {
  entry *entries;
  size_t size, used;
} table;

static size_t home(const api_request *r) {
  uint64_t h = (uint64_t)(uintptr_t)r * 0x9E3779B97F4A7C15ULL;
  return (size_t)(h >> 32) & (table.size - 1);
}

// The entry of a request, or the free one where it would be. The table is not empty.
static entry *at(const api_request *r) {
  size_t i = home(r);
  while (table.entries[i].request != NULL && table.entries[i].request != r) i = (i + 1) & (table.size - 1);
  return &table.entries[i];
}

static bool grow(void) {
  size_t size = table.size, wanted = size == 0 ? FIRST_SIZE : 2 * size;
  entry *old = table.entries, *new = calloc(wanted, sizeof(*new));
  if (new == NULL) return false;
  table.entries = new;
  table.size = wanted;
  for (size_t i = 0; i < size; i++)
    if (old[i].request != NULL) *at(old[i].request) = old[i];
  free(old);
  return true;
}

front_way front_way_of(const api_request *r) { return table.used == 0 ? FRONT_UNKNOWN : at(r)->way; }

bool front_way_set(const api_request *r, front_way way) {
  if (2 * (table.used + 1) > table.size && !grow()) return false;
  entry *e = at(r);
  if (e->request == NULL) table.used++;
  *e = (entry){r, way};
  return true;
}

// Entries behind a freed one move up, so that they are still found.
void front_way_forget(const api_request *r) {
  if (table.used == 0) return;
  entry *e = at(r);
  if (e->request == NULL) return;
  table.used--;
  size_t hole = (size_t)(e - table.entries);
  for (size_t i = (hole + 1) & (table.size - 1); table.entries[i].request != NULL; i = (i + 1) & (table.size - 1)) {
    size_t h = home(table.entries[i].request);
    if (((i - h) & (table.size - 1)) < ((i - hole) & (table.size - 1))) continue;
    table.entries[hole] = table.entries[i];
    hole = i;
  }
  table.entries[hole] = (entry){NULL, FRONT_UNKNOWN};
}
