/* compress_v3.c: what a mask picks by AVX2, which has no instruction for it: shuffles whose numbers
 * are in a table, by what is in of eight places. */
#include "loops/x86_64/compress.h"

#include <string.h>
#include <immintrin.h>

#define WIDE __attribute__((target("avx2,popcnt")))

/* Per byte of bits: the places of those that are set, a byte for each, then zeros. */
#define PLACE(bits, k) \
    ((uint64_t)((bits) >> (k) & 1) * (k) << 8 * __builtin_popcount((bits) & ((1 << (k)) - 1)))
#define ROW(bits)                                                                              \
    PLACE(bits, 0) | PLACE(bits, 1) | PLACE(bits, 2) | PLACE(bits, 3) | PLACE(bits, 4) |       \
        PLACE(bits, 5) | PLACE(bits, 6) | PLACE(bits, 7)
#define ROWS(bits) ROW(bits), ROW((bits) + 1), ROW((bits) + 2), ROW((bits) + 3)
#define MORE(bits) ROWS(bits), ROWS((bits) + 4), ROWS((bits) + 8), ROWS((bits) + 12)
#define MOST(bits) MORE(bits), MORE((bits) + 16), MORE((bits) + 32), MORE((bits) + 48)
static const uint64_t places_of[256] = {MOST(0), MOST(64), MOST(128), MOST(192)};
/* Each of four bits twice. */
static const uint8_t twice[16] = {0x00, 0x03, 0x0c, 0x0f, 0x30, 0x33, 0x3c, 0x3f,
                                  0xc0, 0xc3, 0xcc, 0xcf, 0xf0, 0xf3, 0xfc, 0xff};

WIDE static inline uint64_t line_of(const char *mask)
{
    __m256i none = _mm256_setzero_si256();
    __m256i low = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)mask), none),
            high = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)mask + 1), none);
    return ~((uint64_t)(uint32_t)_mm256_movemask_epi8(low) |
             (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32);
}

WIDE static inline __m128i row_of(unsigned bits)
{
    return _mm_loadl_epi64((const __m128i *)(places_of + bits));
}

/* Eight ints of which these are in, in front. */
WIDE static inline __m256i in_front(__m256i ints, unsigned bits)
{
    return _mm256_permutevar8x32_epi32(ints, _mm256_cvtepu8_epi32(row_of(bits)));
}

WIDE static inline size_t pick_ints(char *to, const char *from, unsigned bits)
{
    size_t moved = 0;
    for (int k = 0; k < 2; k++, bits >>= 8, from += 32) {
        __m256i ints = _mm256_loadu_si256((const __m256i *)from);
        _mm256_storeu_si256((__m256i *)(to + moved), in_front(ints, bits & 0xff));
        moved += 4 * (size_t)__builtin_popcount(bits & 0xff);
    }
    return moved;
}

WIDE static inline size_t pick_longs(char *to, const char *from, unsigned bits)
{
    size_t moved = 0;
    for (int k = 0; k < 2; k++, bits >>= 4, from += 32) {
        __m256i longs = _mm256_loadu_si256((const __m256i *)from);
        _mm256_storeu_si256((__m256i *)(to + moved), in_front(longs, twice[bits & 0xf]));
        moved += 8 * (size_t)__builtin_popcount(bits & 0xf);
    }
    return moved;
}

/* A line of which all are in, `size` vectors. */
WIDE static inline void move_line(char *to, const char *from, int64_t size)
{
    for (int64_t k = 0; k < size * VECTOR; k += 32) {
        _mm256_storeu_si256((__m256i *)(to + k), _mm256_loadu_si256((const __m256i *)(from + k)));
    }
}

#include "loops/x86_64/compress_body.h"

/* Elements of one and two bytes, eight at a time. */
WIDE static int64_t pick_narrow(char **to, const char *end, const char *from, const char *mask,
                                int64_t n, int64_t size)
{
    char *packed = *to;
    int64_t i = 0;
    for (; i + LINE <= n && end - packed >= LINE * size; i += LINE) {
        const char *at = from + i * size;
        for (uint64_t bits = line_of(mask + i); bits != 0; bits >>= 8, at += 8 * size) {
            __m128i row = row_of(bits & 0xff);
            if (size == 1) {
                __m128i bytes = _mm_loadl_epi64((const __m128i *)at);
                _mm_storel_epi64((__m128i *)packed, _mm_shuffle_epi8(bytes, row));
            } else { /* of each place its two bytes */
                __m128i both = _mm_unpacklo_epi8(row, row);
                both = _mm_add_epi8(_mm_add_epi8(both, both), _mm_set1_epi16(0x0100));
                __m128i shorts = _mm_loadu_si128((const __m128i *)at);
                _mm_storeu_si128((__m128i *)packed, _mm_shuffle_epi8(shorts, both));
            }
            packed += size * __builtin_popcount(bits & 0xff);
        }
    }
    *to = packed;
    return i;
}

int64_t npa_compress_v3(char **to, const char *end, const char *from, const char *mask, int64_t n,
                        int64_t size)
{
    return size <= 2 ? pick_narrow(to, end, from, mask, n, size)
                     : pick(to, end, from, mask, n, size);
}

WIDE int64_t npa_keep_between_v3(const int64_t *places, int64_t n, int64_t low, int64_t high,
                                 int64_t *to, int64_t *which)
{
    enum { LANES = 4 };
    __m256i first = _mm256_set1_epi64x(low), end = _mm256_set1_epi64x(high);
    __m256i number = _mm256_set_epi64x(3, 2, 1, 0), next = _mm256_set1_epi64x(LANES);
    int64_t kept = 0, i = 0;
    for (; i + LANES <= n; i += LANES, number = _mm256_add_epi64(number, next)) {
        __m256i place = _mm256_loadu_si256((const __m256i *)(places + i));
        __m256i in = _mm256_andnot_si256(_mm256_cmpgt_epi64(first, place),
                                         _mm256_cmpgt_epi64(end, place));
        unsigned bits = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(in));
        _mm256_storeu_si256((__m256i *)(to + kept), in_front(place, twice[bits]));
        _mm256_storeu_si256((__m256i *)(which + kept), in_front(number, twice[bits]));
        kept += __builtin_popcount(bits);
    }
    for (; i < n; i++) {
        to[kept] = places[i], which[kept] = i;
        kept += places[i] >= low && places[i] < high;
    }
    return kept;
}
