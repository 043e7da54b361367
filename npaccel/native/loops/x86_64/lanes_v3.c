/* lanes_v3.c: the functions of lanes.h by AVX2. */
#include "loops/x86_64/lanes_v3.h"

#define NAME(name) name##_v3
#define M __m256d
#define STORE(to, v) _mm256_storeu_pd(to, v)
#define AND(a, b) _mm256_and_pd(a, b)
#define XOR(a, b) _mm256_xor_pd(a, b)
#define ROOT(a) _mm256_sqrt_pd(a)
#define LARGER(a, b) _mm256_max_pd(a, b)
#define SMALLER(a, b) _mm256_min_pd(a, b)
#define ANY(m) (_mm256_movemask_pd(m) != 0)
#define ALL_OF(m) (_mm256_movemask_pd(m) == 0xf)
#define ADD_WITHOUT(m, a, b) _mm256_add_pd(a, _mm256_andnot_pd(m, b))
#define OUT(m) ((unsigned)_mm256_movemask_pd(m) ^ 0xf)
#define DROP(m, a) _mm256_andnot_pd(m, a)
/* Of each lane the last bit, in all of its bits */
#define ODD(a)                                                                            \
    _mm256_castsi256_pd(_mm256_sub_epi64(                                                 \
        _mm256_setzero_si256(), _mm256_and_si256(_mm256_castpd_si256(a), _mm256_set1_epi64x(1))))
#define SECOND_BIT(a) \
    AND(ALL(-0.0), _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(a), 62)))

INLINE void look_up_v3(V place, M odd, V *row)
{
    int64_t at[LANES] __attribute__((aligned(32)));
    __m256i half = _mm256_and_si256(_mm256_castpd_si256(odd), _mm256_set1_epi64x(NPA_SINE_ROWS));
    __m256i k = _mm256_and_si256(_mm256_castpd_si256(place), _mm256_set1_epi64x(NPA_SINE_ROWS - 1));
    _mm256_store_si256((__m256i *)at, _mm256_slli_epi64(_mm256_or_si256(k, half), 2));
    IN_MEMORY(at);
    const double *base = npa_sine_table[0][0];
    const double *const rows[LANES] = {base + at[0], base + at[1], base + at[2], base + at[3]};
    turn_v3(rows, 0, row);
}

#include "loops/x86_64/lanes_body.h"

npa_lane_function *const npa_lanes_v3[NPA_LANED] = {
    [NPA_SINES] = NAME(sines), [NPA_COSINES] = NAME(cosines),
    [NPA_HYPOTENUSES] = NAME(hypotenuses),
    [NPA_EXPS] = npa_exps_v3, [NPA_LOGS] = npa_logs_v3, [NPA_EXP2S] = npa_exp2s_v3,
    [NPA_LOG2S] = npa_log2s_v3, [NPA_LOG10S] = npa_log10s_v3, [NPA_POWERS] = npa_powers_v3,
    [NPA_EXPM1S] = npa_expm1s_v3, [NPA_LOG1PS] = npa_log1ps_v3, [NPA_SINHS] = npa_sinhs_v3,
    [NPA_COSHS] = npa_coshs_v3, [NPA_LOGADDEXPS] = npa_logaddexps_v3,
    [NPA_TANHS] = npa_tanhs_v3,
};
