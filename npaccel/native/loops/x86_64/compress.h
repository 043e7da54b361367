/* compress.h: what processors with AVX2 pick by a mask; see compress.c. */
#ifndef NPA_COMPRESS_H
#define NPA_COMPRESS_H

#include "loops/loops.h"

enum { LINE = 64, VECTOR = 64 }; /* places of a mask, and bytes, that go together */

/* As npa_compress, of elements of 1, 2, 4, 8 or 16 bytes, and npa_keep_between. */
int64_t npa_compress_v3(char **to, const char *end, const char *from, const char *mask, int64_t n,
                        int64_t size);
int64_t npa_keep_between_v3(const int64_t *places, int64_t n, int64_t low, int64_t high,
                            int64_t *to, int64_t *which);

#endif
