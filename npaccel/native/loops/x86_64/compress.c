/* compress.c: what a mask picks, and where it puts, by the processor's own instructions for it
 * (AVX-512): 64 places of the mask are looked at together, elements of up to 16 bytes move four or
 * more at a time, without branches. Where fewer are left than an instruction moves they go one by
 * one. The last places, fewer than 64, are for who calls. For processors without these instructions
 * compress_v3.c picks; what they would put by masked stores goes one by one. */
#include "loops/x86_64/compress.h"

#include <string.h>
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,popcnt")))

static bool is_there(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

WIDE static inline uint64_t line_of(const char *mask)
{
    __m512i bytes = _mm512_loadu_si512(mask);
    return _mm512_test_epi8_mask(bytes, bytes);
}

/* The bytes that go on from `to`. */
WIDE static inline size_t pick_longs(char *to, const char *from, unsigned bits)
{
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64((__mmask8)bits, _mm512_loadu_si512(from)));
    return 8 * (size_t)__builtin_popcount(bits & 0xff);
}

WIDE static inline size_t pick_ints(char *to, const char *from, unsigned bits)
{
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32((__mmask16)bits, _mm512_loadu_si512(from)));
    return 4 * (size_t)__builtin_popcount(bits & 0xffff);
}

WIDE static inline size_t put_longs(char *to, const char *from, unsigned bits)
{
    __m512i spread = _mm512_maskz_expand_epi64((__mmask8)bits, _mm512_loadu_si512(from));
    _mm512_mask_storeu_epi64(to, (__mmask8)bits, spread);
    return 8 * (size_t)__builtin_popcount(bits & 0xff);
}

WIDE static inline size_t put_ints(char *to, const char *from, unsigned bits)
{
    __m512i spread = _mm512_maskz_expand_epi32((__mmask16)bits, _mm512_loadu_si512(from));
    _mm512_mask_storeu_epi32(to, (__mmask16)bits, spread);
    return 4 * (size_t)__builtin_popcount(bits & 0xffff);
}

/* A line of which all are in, `size` vectors: a memcpy of a length that is not known would be `rep
 * movs`, which begins slowly. */
WIDE static inline void move_line(char *to, const char *from, int64_t size)
{
    for (int64_t k = 0; k < size * VECTOR; k += VECTOR) {
        _mm512_storeu_si512(to + k, _mm512_loadu_si512(from + k));
    }
}

#include "loops/x86_64/compress_body.h"

#define PUT_LONGS(offset, in) put_longs(at + (offset), packed, in)
#define PUT_INTS(offset, in) put_ints(at + (offset), packed, in)

WIDE static int64_t put(char *to, const char **from, const char *end, const char *mask, int64_t n,
                        int64_t size)
{
    const char *packed = *from;
    int64_t i = 0;
    for (; i + LINE <= n && packed != end; i += LINE) {
        uint64_t bits = line_of(mask + i);
        char *at = to + i * size;
        if (end - packed < LINE * size) {
            for (; bits != 0 && packed != end; bits &= bits - 1, packed += size) {
                move_one(at + __builtin_ctzll(bits) * size, packed, size);
            }
        } else if (bits == ~(uint64_t)0) {
            move_line(at, packed, size);
            packed += LINE * size;
        } else if (bits != 0) {
            LINE_OF_MASK(size, PUT_LONGS, PUT_INTS)
        }
    }
    *from = packed;
    return i;
}

bool npa_keeps_fast(void) { return is_there() || npa_cpu_runs("v3"); }

WIDE static int64_t keep(const int64_t *places, int64_t n, int64_t low, int64_t high, int64_t *to,
                         int64_t *which)
{
    enum { LANES = VECTOR / 8 };
    __m512i first = _mm512_set1_epi64(low), extent = _mm512_set1_epi64(high - low);
    __m512i number = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), next = _mm512_set1_epi64(LANES);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i += LANES, number = _mm512_add_epi64(number, next)) {
        __mmask8 there = (__mmask8)(n - i < LANES ? (1u << (n - i)) - 1 : 0xff);
        __m512i place = _mm512_maskz_loadu_epi64(there, places + i);
        unsigned in = _mm512_mask_cmplt_epu64_mask(there, _mm512_sub_epi64(place, first), extent);
        _mm512_storeu_si512(to + kept, _mm512_maskz_compress_epi64((__mmask8)in, place));
        _mm512_storeu_si512(which + kept, _mm512_maskz_compress_epi64((__mmask8)in, number));
        kept += __builtin_popcount(in);
    }
    return kept;
}

/* Elements of one and two bytes; newer processors have these. */
#define NARROW __attribute__((target("avx512f,avx512bw,avx512vbmi2,popcnt")))

static bool is_there_for_narrow(void)
{
    return is_there() && __builtin_cpu_supports("avx512vbmi2");
}

NARROW static int64_t pick_narrow(char **to, const char *end, const char *from, const char *mask,
                                  int64_t n, int64_t size)
{
    char *packed = *to;
    int64_t i = 0;
    for (; i + LINE <= n && end - packed >= LINE * size; i += LINE) {
        uint64_t bits = line_of(mask + i);
        const char *at = from + i * size;
        if (size == 1) {
            _mm512_storeu_si512(packed, _mm512_maskz_compress_epi8(bits, _mm512_loadu_si512(at)));
            packed += __builtin_popcountll(bits);
            continue;
        }
        for (; bits != 0; bits >>= LINE / 2, at += VECTOR) {
            _mm512_storeu_si512(
                packed, _mm512_maskz_compress_epi16((__mmask32)bits, _mm512_loadu_si512(at)));
            packed += 2 * __builtin_popcountll(bits & UINT32_MAX);
        }
    }
    *to = packed;
    return i;
}

NARROW static int64_t put_narrow(char *to, const char **from, const char *end, const char *mask,
                                 int64_t n, int64_t size)
{
    const char *packed = *from;
    int64_t i = 0;
    for (; i + LINE <= n && end - packed >= LINE * size; i += LINE) {
        uint64_t bits = line_of(mask + i);
        char *at = to + i * size;
        if (size == 1) {
            _mm512_mask_storeu_epi8(at, bits,
                                    _mm512_maskz_expand_epi8(bits, _mm512_loadu_si512(packed)));
            packed += __builtin_popcountll(bits);
            continue;
        }
        for (; bits != 0; bits >>= LINE / 2, at += VECTOR) {
            __m512i spread = _mm512_maskz_expand_epi16((__mmask32)bits, _mm512_loadu_si512(packed));
            _mm512_mask_storeu_epi16(at, (__mmask32)bits, spread);
            packed += 2 * __builtin_popcountll(bits & UINT32_MAX);
        }
    }
    *from = packed;
    return i;
}

int64_t npa_compress(char **to, const char *end, const char *from, const char *mask, int64_t n,
                     size_t size)
{
    switch (size) {
    case 1:
    case 2: if (is_there_for_narrow()) {
            return pick_narrow(to, end, from, mask, n, (int64_t)size);
        }
        break;
    case 4:
    case 8:
    case 16: if (is_there()) {
            return pick(to, end, from, mask, n, (int64_t)size);
        }
        break;
    default: return 0;
    }
    return npa_cpu_runs("v3") ? npa_compress_v3(to, end, from, mask, n, (int64_t)size) : 0;
}

int64_t npa_expand(char *to, const char **from, const char *end, const char *mask, int64_t n,
                   size_t size)
{
    switch (size) {
    case 1:
    case 2: return is_there_for_narrow() ? put_narrow(to, from, end, mask, n, (int64_t)size) : 0;
    case 4: case 8: case 16: return is_there() ? put(to, from, end, mask, n, (int64_t)size) : 0;
    default: return 0;
    }
}

int64_t npa_keep_between(const int64_t *places, int64_t n, int64_t low, int64_t high, int64_t *to,
                         int64_t *which)
{
    return is_there()           ? keep(places, n, low, high, to, which)
           : npa_cpu_runs("v3") ? npa_keep_between_v3(places, n, low, high, to, which)
                                : npa_keep_each(places, n, low, high, to, which);
}
