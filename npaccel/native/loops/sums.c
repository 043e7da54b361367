/* sums.c: loops for `add`, as NumPy calls a ufunc's, that add narrow integers and truth values to
 * integers of 64 bits without a cast before. Such sums wrap and are the same in any order. */
#include "loops/loops.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* So many values below 2^16 have a sum below 2^32. */
enum { PIECE = 1 << 15 };

/* All to one sum; VALUE: of `x`; PART holds the sum of a piece. */
#define TOTAL(NAME, T, PART, VALUE)                                                               \
    NPA_EACH_PROCESSOR static uint64_t total_##NAME(const T *from, npy_intp n)                    \
    {                                                                                             \
        uint64_t sum = 0;                                                                         \
        for (npy_intp m; n > 0; n -= m, from += m) {                                              \
            PART part = 0;                                                                        \
            m = n < PIECE ? n : PIECE;                                                            \
            for (npy_intp i = 0; i < m; i++) {                                                    \
                T x = from[i];                                                                    \
                part += (PART)(VALUE);                                                            \
            }                                                                                     \
            sum += (uint64_t)(int64_t)part;                                                       \
        }                                                                                         \
        return sum;                                                                               \
    }                                                                                             \
    NPA_EACH_PROCESSOR static void row_##NAME(const T *restrict from, uint64_t *restrict to,      \
                                              npy_intp n)                                         \
    {                                                                                             \
        for (npy_intp i = 0; i < n; i++) {                                                        \
            T x = from[i];                                                                        \
            to[i] += (uint64_t)(VALUE);                                                           \
        }                                                                                         \
    }                                                                                             \
    static uint64_t apart_##NAME(const char *from, npy_intp n, npy_intp step)                     \
    {                                                                                             \
        uint64_t sum = 0;                                                                         \
        for (npy_intp i = 0; i < n; i++) {                                                        \
            T x = *(const T *)(const void *)(from + i * step);                                    \
            sum += (uint64_t)(VALUE);                                                             \
        }                                                                                         \
        return sum;                                                                               \
    }                                                                                             \
    static void add_##NAME(char **args, const npy_intp *n, const npy_intp *steps, void *data)     \
    {                                                                                             \
        char *to = args[0];                                                                       \
        const char *from = args[1];                                                               \
        bool lies = steps[1] == sizeof(T);                                                        \
        (void)data;                                                                               \
        if (lies && steps[0] == 0) {                                                              \
            *(uint64_t *)(void *)to += total_##NAME((const T *)(const void *)from, *n);           \
        } else if (lies && steps[0] == 8) {                                                       \
            row_##NAME((const T *)(const void *)from, (uint64_t *)(void *)to, *n);                \
        } else if (steps[0] == 0) {                                                               \
            *(uint64_t *)(void *)to += apart_##NAME(from, *n, steps[1]);                          \
        } else {                                                                                  \
            for (npy_intp i = 0; i < *n; i++, from += steps[1], to += steps[0]) {                 \
                T x = *(const T *)(const void *)from;                                             \
                *(uint64_t *)(void *)to += (uint64_t)(VALUE);                                     \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    static void scan_##NAME(char **args, const npy_intp *n, const npy_intp *steps, void *data)    \
    {                                                                                             \
        uint64_t last = *(const uint64_t *)(const void *)args[0];                                 \
        const char *from = args[1];                                                               \
        char *to = args[2];                                                                       \
        (void)data;                                                                               \
        for (npy_intp i = 0; i < *n; i++, from += steps[1], to += steps[2]) {                     \
            T x = *(const T *)(const void *)from;                                                 \
            last += (uint64_t)(VALUE);                                                            \
            *(uint64_t *)(void *)to = last;                                                       \
        }                                                                                         \
    }

TOTAL(bool, uint8_t, uint32_t, x != 0)
TOTAL(i1, int8_t, int32_t, x)
TOTAL(u1, uint8_t, uint32_t, x)
TOTAL(i2, int16_t, int32_t, x)
TOTAL(u2, uint16_t, uint32_t, x)
TOTAL(i4, int32_t, int64_t, x)
TOTAL(u4, uint32_t, int64_t, x)

static const struct {
    int type;
    npa_wide_sum sum;
} sums[] = {{NPY_BOOL, {add_bool, scan_bool, 1}}, {NPY_BYTE, {add_i1, scan_i1, 1}},
            {NPY_UBYTE, {add_u1, scan_u1, 1}},    {NPY_SHORT, {add_i2, scan_i2, 2}},
            {NPY_USHORT, {add_u2, scan_u2, 2}},   {NPY_INT, {add_i4, scan_i4, 4}},
            {NPY_UINT, {add_u4, scan_u4, 4}}};

const npa_wide_sum *npa_find_wide_sum(int type)
{
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        if (sums[i].type == type) {
            return &sums[i].sum;
        }
    }
    return NULL;
}
