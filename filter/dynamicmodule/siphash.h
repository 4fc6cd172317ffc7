// SipHash-2-4 with 128 bits (Aumasson and Bernstein 2012), over words and bytes in turn:
// each part is padded with zeros to whole words, so a caller puts the length of what
// varies before it.
#ifndef MESHGATE_SIPHASH_H
#define MESHGATE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct sip {
  uint64_t v0, v1, v2, v3, words;
} sip;

static inline uint64_t sip_rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline void sip_round(sip *s) {
  s->v0 += s->v1;
  s->v1 = sip_rotate(s->v1, 13) ^ s->v0;
  s->v0 = sip_rotate(s->v0, 32);
  s->v2 += s->v3;
  s->v3 = sip_rotate(s->v3, 16) ^ s->v2;
  s->v0 += s->v3;
  s->v3 = sip_rotate(s->v3, 21) ^ s->v0;
  s->v2 += s->v1;
  s->v1 = sip_rotate(s->v1, 17) ^ s->v2;
  s->v2 = sip_rotate(s->v2, 32);
}

static inline void sip_begin(sip *s, const uint64_t key[2]) {
  s->v0 = key[0] ^ 0x736f6d6570736575ULL;
  s->v1 = key[1] ^ 0x646f72616e646f6dULL ^ 0xee;
  s->v2 = key[0] ^ 0x6c7967656e657261ULL;
  s->v3 = key[1] ^ 0x7465646279746573ULL;
  s->words = 0;
}

static inline void sip_word(sip *s, uint64_t m) {
  s->v3 ^= m;
  sip_round(s);
  sip_round(s);
  s->v0 ^= m;
  s->words++;
}

static inline void sip_bytes(sip *s, const char *p, size_t n) {
  uint64_t m;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&m, p, 8);
    sip_word(s, m);
  }
  if (n == 0) return;
  m = 0;
  memcpy(&m, p, n);
  sip_word(s, m);
}

// The last word holds the length in its upper byte, as that of a message of whole words.
static inline void sip_end(sip *s, uint64_t out[2]) {
  sip_word(s, s->words * 8 << 56);
  s->v2 ^= 0xee;
  for (int i = 0; i < 4; i++) sip_round(s);
  out[0] = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
  s->v1 ^= 0xdd;
  for (int i = 0; i < 4; i++) sip_round(s);
  out[1] = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

#endif
