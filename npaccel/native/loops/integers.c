/* integers.c: products of matrices of integers, by blocks that stay in registers and the first
 * cache, where NumPy's loop adds one term after the other. Integers wrap, so that the order of
 * terms makes no difference. */
#include "loops/loops.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* Rows of a block; terms, and bytes of a row of what lies in the cache; elements of a vector's
 * part. */
enum { ROWS = 4, TERMS = 128, WIDTH = 128, PART = 1024 };

typedef struct {
    const char *a, *b;
    char *out;
    npy_intp rows, terms, columns;
    const npy_intp *core; /* steps: of a along rows, terms; of b along terms, columns; of out */
} matrices;

/* `n` terms of the sums of a block, by vectors of so many bytes, two a row at once. Compilers put
 * those that are wider than the processor's into memory, number by number. */
#define SUMS(T, W, bytes)                                                                          \
    NPA_EACH_PROCESSOR static void sums_##T##_##bytes(const char *const *a, npy_intp step,         \
                                                      npy_intp n, const W *b, W *sums)             \
    {                                                                                              \
        typedef W lanes __attribute__((vector_size(bytes)));                                       \
        enum { LANES = WIDTH / sizeof(W), PAIR = 2 * sizeof(lanes) / sizeof(W) };                  \
        for (const W *end = b + LANES; b < end; b += PAIR, sums += PAIR) {                         \
            lanes sum[ROWS][2] = {0}, right[2];                                                    \
            for (npy_intp k = 0; k < n; k++) {                                                     \
                memcpy(right, b + k * LANES, sizeof right);                                        \
                for (int r = 0; r < ROWS; r++) {                                                   \
                    W left = *(const T *)(const void *)(a[r] + k * step);                          \
                    sum[r][0] += right[0] * left;                                                  \
                    sum[r][1] += right[1] * left;                                                  \
                }                                                                                  \
            }                                                                                      \
            for (int r = 0; r < ROWS; r++) {                                                       \
                memcpy(sums + r * LANES, sum[r], sizeof sum[r]);                                   \
            }                                                                                      \
        }                                                                                          \
    }

/* W: what T is multiplied as. block: with columns in vectors. line: of one column, or of one row
 * whose matrices were turned round. */
#define PRODUCTS(T, W)                                                                             \
    SUMS(T, W, 32)                                                                                 \
    SUMS(T, W, 64)                                                                                 \
    static void pack_##T(const matrices *m, npy_intp k0, npy_intp kn, npy_intp j0, npy_intp jn,    \
                         W *to)                                                                    \
    {                                                                                              \
        enum { LANES = WIDTH / sizeof(W) };                                                        \
        for (npy_intp k = 0; k < kn; k++, to += LANES) {                                           \
            const char *from = m->b + (k0 + k) * m->core[2] + j0 * m->core[3];                     \
            if (m->core[3] == sizeof(T) && jn == LANES) {                                          \
                for (npy_intp j = 0; j < LANES; j++) {                                             \
                    to[j] = ((const T *)(const void *)from)[j];                                    \
                }                                                                                  \
                continue;                                                                          \
            }                                                                                      \
            for (npy_intp j = 0; j < LANES; j++) {                                                 \
                to[j] = j < jn ? *(const T *)(const void *)(from + j * m->core[3]) : (T)0;         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void store_##T(const W *sums, char *out, npy_intp step, npy_intp n, bool first)         \
    {                                                                                              \
        for (npy_intp j = 0; j < n; j++) {                                                         \
            T *to = (T *)(void *)(out + j * step);                                                 \
            *to = (T)(sums[j] + (first ? (W)0 : (W)*to));                                          \
        }                                                                                          \
    }                                                                                              \
    static void blocks_##T(const matrices *m)                                                      \
    {                                                                                              \
        enum { LANES = WIDTH / sizeof(W) };                                                        \
        W right[TERMS * LANES] __attribute__((aligned(64)));                                       \
        W sums[ROWS * LANES] __attribute__((aligned(64)));                                         \
        bool wide = npa_cpu_runs("v4");                                                            \
        for (npy_intp k = 0; k < m->terms; k += TERMS) {                                           \
            npy_intp kn = m->terms - k < TERMS ? m->terms - k : TERMS;                             \
            for (npy_intp j = 0; j < m->columns; j += LANES) {                                     \
                npy_intp jn = m->columns - j < LANES ? m->columns - j : LANES;                     \
                pack_##T(m, k, kn, j, jn, right);                                                  \
                for (npy_intp i = 0; i < m->rows; i += ROWS) {                                     \
                    const char *a[ROWS];                                                           \
                    npy_intp in = m->rows - i < ROWS ? m->rows - i : ROWS;                         \
                    for (int r = 0; r < ROWS; r++) {                                               \
                        a[r] = m->a + (i + (r < in ? r : 0)) * m->core[0] + k * m->core[1];        \
                    }                                                                              \
                    (wide ? sums_##T##_64 : sums_##T##_32)(a, m->core[1], kn, right, sums);        \
                    for (npy_intp r = 0; r < in; r++) {                                            \
                        store_##T(sums + r * LANES,                                                \
                                  m->out + (i + r) * m->core[4] + j * m->core[5], m->core[5], jn,  \
                                  k == 0);                                                         \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static W dot_##T(const T *x, const T *y, npy_intp n)                        \
    {                                                                                              \
        W sum = 0;                                                                                 \
        for (npy_intp k = 0; k < n; k++) {                                                         \
            sum += (W)((W)x[k] * (W)y[k]);                                                         \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
    NPA_EACH_PROCESSOR static void add_##T(W *sums, const T *x, W by, npy_intp n)                  \
    {                                                                                              \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            sums[i] += (W)((W)x[i] * by);                                                          \
        }                                                                                          \
    }                                                                                              \
    static void by_rows_##T(const matrices *m)                                                     \
    {                                                                                              \
        T left[PART], right[PART];                                                                 \
        for (npy_intp k = 0; k < m->terms; k += PART) {                                            \
            npy_intp n = m->terms - k < PART ? m->terms - k : PART;                                \
            npa_pack((char *)right, m->b + k * m->core[2], m->core[2], n, sizeof(T));              \
            for (npy_intp i = 0; i < m->rows; i++) {                                               \
                const char *from = m->a + i * m->core[0] + k * m->core[1];                         \
                if (m->core[1] != sizeof(T)) {                                                     \
                    npa_pack((char *)left, from, m->core[1], n, sizeof(T));                        \
                    from = (const char *)left;                                                     \
                }                                                                                  \
                W sum = dot_##T((const T *)(const void *)from, right, n);                          \
                store_##T(&sum, m->out + i * m->core[4], 0, 1, k == 0);                            \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void by_terms_##T(const matrices *m)                                                    \
    {                                                                                              \
        W sums[PART];                                                                              \
        for (npy_intp i = 0; i < m->rows; i += PART) {                                             \
            npy_intp n = m->rows - i < PART ? m->rows - i : PART;                                  \
            memset(sums, 0, sizeof sums);                                                          \
            for (npy_intp k = 0; k < m->terms; k++) {                                              \
                const char *from = m->a + i * m->core[0] + k * m->core[1];                         \
                W by = *(const T *)(const void *)(m->b + k * m->core[2]);                          \
                add_##T(sums, (const T *)(const void *)from, by, n);                               \
            }                                                                                      \
            store_##T(sums, m->out + i * m->core[4], m->core[4], n, true);                         \
        }                                                                                          \
    }                                                                                              \
    static void product_##T(const matrices *m)                                                     \
    {                                                                                              \
        if (m->columns > 1) {                                                                      \
            blocks_##T(m);                                                                         \
        } else if (m->core[0] == sizeof(T) && m->rows > 1) {                                       \
            by_terms_##T(m);                                                                       \
        } else {                                                                                   \
            by_rows_##T(m);                                                                        \
        }                                                                                          \
    }
PRODUCTS(uint8_t, uint16_t)
PRODUCTS(uint16_t, uint16_t)
PRODUCTS(uint32_t, uint32_t)
PRODUCTS(uint64_t, uint64_t)

static void multiply(int size, const matrices *m)
{
    switch (size) {
    case 1: product_uint8_t(m); break;
    case 2: product_uint16_t(m); break;
    case 4: product_uint32_t(m); break;
    default: product_uint64_t(m);
    }
}

void npa_multiply_integers(int size, char *const *args, npy_intp n, const npy_intp *extents,
                           const npy_intp *steps, const npy_intp *core)
{
    bool turned = extents[0] == 1 && extents[2] > 1; /* one row is one column then */
    const npy_intp round[6] = {core[3], core[2], core[1], core[0], core[5], core[4]};
    for (npy_intp at = 0; at < n; at++) {
        const char *a = args[0] + at * steps[0], *b = args[1] + at * steps[1];
        matrices m = {.a = turned ? b : a,
                      .b = turned ? a : b,
                      .out = args[2] + at * steps[2],
                      .rows = turned ? extents[2] : extents[0],
                      .terms = extents[1],
                      .columns = turned ? 1 : extents[2],
                      .core = turned ? round : core};
        multiply(size, &m);
    }
}
