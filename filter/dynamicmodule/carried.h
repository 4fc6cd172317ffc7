// What a table carries to the filter, and what its routes say of it; see carried.c.
#ifndef MESHGATE_CARRIED_H
#define MESHGATE_CARRIED_H

#include "lookup.h"

// What the selected route wants of the filter.
typedef struct front_selected {
  const front_route *route;  // NULL: nothing is decided here
  bool unknown;              // it names a chain that is not there: the request must be refused
  bool unmarked;             // it should say what it has, and says nothing: likewise
  bool strips;               // a request that passes loses a part of its path
} front_selected;

// Good while the hook runs; see front_route_keep.
front_selected front_select(dm_filter_envoy f, const front_config *of);
// Takes the part of the path away that the route says. False if that fails: the request must
// not go on.
bool front_strip_prefix(dm_filter_envoy f);
// The same for a text. The caller frees what it gets. prefix is how many bytes went.
bool front_cut_path(front_text said, front_text path, front_text *out, size_t *prefix);

#endif
