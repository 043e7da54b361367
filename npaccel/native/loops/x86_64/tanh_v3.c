/* tanh_v3.c: hyperbolic tangents as NumPy computes them by AVX2, but with a row of coefficients for
 * each number: NumPy gathers each coefficient for itself. See Note [Tangents] at the end. */
#include "loops/x86_64/lanes_v3.h"

/* The interval, of which there are two for each power of 2 */
INLINE W interval(W size)
{
    W from = _mm256_sub_epi64(size, WORDS(0x3fc0000000000000));
    from = _mm256_max_epi32(from, _mm256_setzero_si256());
    return _mm256_srli_epi64(_mm256_min_epi32(from, _mm256_set1_epi32(0x780000)), 51);
}

INLINE V tanh_of(V x)
{
    int64_t k[LANES] __attribute__((aligned(32)));
    const double *rows[LANES];
    V by[4], sign = _mm256_and_pd(x, ALL(-0.0)), size = _mm256_andnot_pd(ALL(-0.0), x);
    W upper = _mm256_and_si256(_mm256_castpd_si256(x), WORDS(0x7ff8000000000000));
    _mm256_store_si256((W *)k, interval(upper));
    IN_MEMORY(k);
    for (int i = 0; i < LANES; i++) {
        rows[i] = npa_library.tanh_rows[k[i]];
    }
    turn_v3(rows, 16, by);
    V last = by[1], next = by[0];
    turn_v3(rows, 0, by);
    V first = by[0], c0 = by[1], c1 = by[2], c2 = by[3], y = size - first;
    V r = _mm256_fmadd_pd(last, y, next);
    for (int at = 12; at > 0; at -= 4) {
        turn_v3(rows, at, by);
        for (int i = 3; i >= 0; i--) {
            r = _mm256_fmadd_pd(r, y, by[i]);
        }
    }
    r = _mm256_fmadd_pd(_mm256_fmadd_pd(_mm256_fmadd_pd(r, y, c2), y, c1), y, c0);
    V huge = _mm256_castsi256_pd(_mm256_cmpgt_epi64(upper, WORDS(0x7fe0000000000000)));
    r = _mm256_or_pd(PICK(huge, ALL(1), r), sign);
    return PICK(_mm256_cmp_pd(x, x, _CMP_UNORD_Q), ALL(__builtin_nan("")), r);
}

TARGET uint64_t npa_tanhs_v3(const double *const *from, double *to, int n)
{
    unsigned before = _mm_getcsr();
    for (int i = 0; i < n; i += LANES) {
        _mm256_storeu_pd(to + i, tanh_of(_mm256_loadu_pd(from[0] + i)));
    }
    __asm__ volatile("" : : : "memory");
    _mm_setcsr(before);
    return 0;
}

/* Note [Tangents]
 *
 * NumPy has a loop of its own for processors with AVX2 and FMA: a polynomial of degree 16 around
 * the middle of each of 14 intervals. Its coefficients are found in its constants (library.c). It
 * leaves no flags. */
