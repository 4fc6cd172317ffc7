// Compiled by reserved_test.go: reads names, each as four hexadecimal digits of its
// length and its bytes, and answers each with 0 to 7: bit 0 for a request, bit 1
// for one that is handed over, bit 2 for a trailer.
#include "../reserved.c"

#include <stdio.h>

int main(void) {
  static char name[1 << 16];
  unsigned len;
  while (scanf("%4x", &len) == 1 && len < sizeof(name)) {
    if (fread(name, 1, len, stdin) != len) return 1;
    putchar('0' + (front_reserved(name, len, false) ? 1 : 0) + (front_reserved(name, len, true) ? 2 : 0) +
            (front_reserved_trailer(name, len) ? 4 : 0));
  }
  return ferror(stdin) || ferror(stdout);
}
