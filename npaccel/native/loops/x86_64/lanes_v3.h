/* lanes_v3.h: registers of AVX2 and what is done with them, by short names. */
#ifndef NPA_LANES_V3_H
#define NPA_LANES_V3_H

#include "loops/x86_64/lanes.h"

#include <immintrin.h>

#define LANES 4
#define TARGET __attribute__((target("avx2,fma")))
#define INLINE TARGET __attribute__((always_inline)) static inline
#define V __m256d
#define W __m256i
#define ALL(number) _mm256_set1_pd(number)
#define WORDS(number) _mm256_set1_epi64x(number)
#define AS_WORDS(v) _mm256_castpd_si256(v)
#define AS_NUMBERS(v) _mm256_castsi256_pd(v)
#define LOAD(from) _mm256_loadu_pd(from)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define FMS(a, b, c) _mm256_fmsub_pd(a, b, c)
#define FNMA(a, b, c) _mm256_fnmadd_pd(a, b, c)
#define ABS(a) _mm256_andnot_pd(ALL(-0.0), a)
#define LESS(a, b) _mm256_cmp_pd(a, b, _CMP_LT_OQ)
#define EQUAL(a, b) _mm256_cmp_pd(a, b, _CMP_EQ_OQ)
#define NOT_LESS(a, b) _mm256_cmp_pd(a, b, _CMP_GE_OQ)
#define BETWEEN(a, low, high) BOTH(NOT_LESS(a, ALL(low)), LESS(a, ALL(high)))
#define BOTH(m, n) _mm256_and_pd(m, n)
#define EITHER(m, n) _mm256_or_pd(m, n)
#define WITHOUT(m, n) _mm256_andnot_pd(n, m)
#define PICK(m, a, b) _mm256_blendv_pd(b, a, m)
#define KEEP(m, a) _mm256_and_pd(m, a)

/* Of four rows of four numbers the columns. */
INLINE void turn_v3(const double *const *rows, int at, V *columns)
{
    V a = _mm256_load_pd(rows[0] + at), b = _mm256_load_pd(rows[1] + at),
      c = _mm256_load_pd(rows[2] + at), d = _mm256_load_pd(rows[3] + at);
    V ab = _mm256_unpacklo_pd(a, b), cd = _mm256_unpacklo_pd(c, d);
    columns[0] = _mm256_permute2f128_pd(ab, cd, 0x20);
    columns[2] = _mm256_permute2f128_pd(ab, cd, 0x31);
    ab = _mm256_unpackhi_pd(a, b), cd = _mm256_unpackhi_pd(c, d);
    columns[1] = _mm256_permute2f128_pd(ab, cd, 0x20);
    columns[3] = _mm256_permute2f128_pd(ab, cd, 0x31);
}

#endif
