// The list of contract.ReservedHeaders and how names are compared with it. It
// needs nothing of Envoy, so that a test can compile it alone.

#include "reserved.h"

#include <string.h>

typedef struct reserved_text {
  const char *ptr;
  size_t len;
} reserved_text;

static const struct {
  reserved_text name, kept;
  bool family, twins, handing_over;
} reserved[] = {
#include "reserved_table.h"
};

static char fold(char c) {
  if (c == '_') return '-';
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool folds_to(const char *got, const char *want, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (fold(got[i]) != want[i]) return false;
  return true;
}

// Looks at two bytes: all of them begin with x and a separator, or with fo; most headers do not.
static bool may_be_reserved(const char *name, size_t len) {
  if (len < 2) return false;
  char first = fold(name[0]), second = fold(name[1]);
  return (first == 'x' && second == '-') || (first == 'f' && second == 'o');
}

// The number of the line that a name fits, or -1.
static int line_of(const char *name, size_t len) {
  if (!may_be_reserved(name, len)) return -1;
  for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
    const reserved_text *want = &reserved[i].name;
    if (len < want->len || (!reserved[i].family && len > want->len)) continue;
    if (folds_to(name, want->ptr, want->len)) return (int)i;
  }
  return -1;
}

bool front_reserved(const char *name, size_t len, bool handing_over) {
  int i = line_of(name, len);
  if (i < 0 || (reserved[i].twins && memchr(name, '_', len) == NULL)) return false;
  const reserved_text *kept = &reserved[i].kept;
  bool keeps = kept->len == len && memcmp(name, kept->ptr, len) == 0;
  return !(keeps && (handing_over || !reserved[i].handing_over));
}

bool front_reserved_trailer(const char *name, size_t len) { return line_of(name, len) >= 0; }
