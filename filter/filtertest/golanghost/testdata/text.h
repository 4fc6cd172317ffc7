// Texts and lists of headers of the host.
#ifndef TEXT_H
#define TEXT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

// ---- text ----

static text copy(const void *p, size_t n) {
  text t = {malloc(n + 1), n};
  if (n > 0) memcpy(t.p, p, n);
  t.p[n] = 0;
  return t;
}

static void append(text *t, const void *p, size_t n) {
  if (n == 0) return;
  t->p = realloc(t->p, t->n + n + 1);
  memcpy(t->p + t->n, p, n);
  t->n += n;
  t->p[t->n] = 0;
}

static int same(text a, const char *p, size_t n) { return a.n == n && memcmp(a.p, p, n) == 0; }

static int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static text unhex(const char *s) {
  if (strcmp(s, "-") == 0) return copy("", 0);
  size_t n = strlen(s) / 2;
  text t = {malloc(n + 1), n};
  for (size_t i = 0; i < n; i++) t.p[i] = (char)(digit(s[2 * i]) << 4 | digit(s[2 * i + 1]));
  t.p[n] = 0;
  return t;
}

static void hex(text t) {
  if (t.n == 0) putchar('-');
  for (size_t i = 0; i < t.n; i++) printf("%02x", (unsigned char)t.p[i]);
}

// ---- headers ----

static void headers_remove(headers *h, const char *p, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < h->n; i++)
    if (same(h->of[i].name, p, n)) {
      free(h->of[i].name.p);
      free(h->of[i].value.p);
    } else {
      h->of[kept++] = h->of[i];
    }
  h->n = kept;
}

static void headers_add(headers *h, text name, text value) {
  if (h->n == MAX_HEADERS) abort();
  h->of[h->n++] = (header){name, value};
}

static void headers_free(headers *h) {
  for (size_t i = 0; i < h->n; i++) {
    free(h->of[i].name.p);
    free(h->of[i].value.p);
  }
  h->n = 0;
}

static header *headers_find(headers *h, const char *p, size_t n) {
  for (size_t i = 0; i < h->n; i++)
    if (same(h->of[i].name, p, n)) return &h->of[i];
  return NULL;
}

#endif
