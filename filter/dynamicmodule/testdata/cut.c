// Compiled by carried_test.go. Reads pairs of what a route says of its path and of a path,
// each as four hexadecimal digits of its length and its bytes. Answers each pair by the path
// that remains, or "-" where it is refused, and a zero byte.
#include "../cut.c"

#include <stdio.h>

static bool read_text(front_text *out) {
  unsigned n;
  if (scanf("%4x", &n) != 1) return false;
  // No byte more than it has: a sanitizer sees who reads beyond.
  char *text = malloc(n > 0 ? n : 1);
  if (text == NULL || fread(text, 1, n, stdin) != n) return false;
  *out = (front_text){text, n};
  return true;
}

int main(void) {
  front_text said, path, now;
  size_t prefix;
  while (read_text(&said) && read_text(&path)) {
    if (front_cut_path(said, path, &now, &prefix)) {
      fwrite(now.ptr, 1, now.len, stdout);
      free((char *)now.ptr);
    } else {
      putchar('-');
    }
    putchar(0);
    free((char *)said.ptr);
    free((char *)path.ptr);
  }
  return 0;
}
