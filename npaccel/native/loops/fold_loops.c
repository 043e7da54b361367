/* fold_loops.c: sums of blocks, lanes and short rows, of floats, doubles and pairs of them. */
#include "loops/loops.h"
#include "loops/fold.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-associative-math")
#endif

/* ABREAST: rows of less than FEW, at once; SOME: lanes of pairs that lie apart */
enum { LANES = NPA_FOLD_LANES, ABREAST = 8, FEW = 128, SOME = 8, FOUR = 4 };
enum { BLOCK = NPA_FOLD_BLOCK, LEVELS = 8 };   /* LEVELS: of the counter of a chunk's blocks */

/* In all of these W values of type T are an element.
 *
 * n values into the lanes; the lanes as halves, the result in the first. Lanes of pairs of doubles
 * are sixteen registers of AVX2. Half of them at a time would read every second 256 bytes, which
 * takes twice as long from memory. */
#define INTO_LANES(lanes, from, n, W)                                                              \
    do {                                                                                           \
        int64_t whole = (n) / (LANES * (W)) * (LANES * (W));                                       \
        for (int64_t done = 0; done < whole; done += LANES * (W)) {                                \
            for (int k = 0; k < LANES * (W); k++) {                                                \
                (lanes)[k] = (lanes)[k] + (from)[done + k];                                        \
            }                                                                                      \
        }                                                                                          \
        for (int64_t k = 0; whole + k < (n); k++) {                                                \
            (lanes)[k] = (lanes)[k] + (from)[whole + k];                                           \
        }                                                                                          \
    } while (0)
#define HALVE(lanes, W)                                                                            \
    for (int half = LANES / 2 * (W); half >= (W); half /= 2) {                                     \
        for (int k = 0; k < half; k++) {                                                           \
            (lanes)[k] = (lanes)[k] + (lanes)[k + half];                                           \
        }                                                                                          \
    }
#define FOLD(NAME, T, W)                                                                           \
    NPA_EACH_PROCESSOR static void combine_##NAME(const void *older, void *to, int64_t width)      \
    {                                                                                              \
        const T *a = older;                                                                        \
        T *b = to;                                                                                 \
        for (int64_t i = 0; i < width * (W); i++) {                                                \
            b[i] = a[i] + b[i];                                                                    \
        }                                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static void lanes_##NAME(void *lanes, const void *x, int64_t n)             \
    {                                                                                              \
        T here[LANES * (W)];                                                                       \
        memcpy(here, lanes, sizeof here);                                                          \
        INTO_LANES(here, (const T *)x, n * (W), W);                                                \
        memcpy(lanes, here, sizeof here);                                                          \
    }
/* Sums of columns: of neighbours, or of such that lie apart. */
#define FOLD_COLUMNS(NAME, T, W)                                                                   \
    NPA_EACH_PROCESSOR static void columns_of_##NAME(T *restrict to, const T *restrict from,       \
                                                     int64_t step, int64_t m, int64_t n)           \
    {                                                                                              \
        /* Results are loaded and stored once for four rows. */                                    \
        for (; m >= 4; m -= 4, from += 4 * step) {                                                 \
            const T *b = from + step, *c = b + step, *d = c + step;                                \
            for (int64_t i = 0; i < n; i++) {                                                      \
                to[i] = (((to[i] + from[i]) + b[i]) + c[i]) + d[i];                                \
            }                                                                                      \
        }                                                                                          \
        for (; m > 0; m--, from += step) {                                                         \
            for (int64_t i = 0; i < n; i++) {                                                      \
                to[i] = to[i] + from[i];                                                           \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static void columns_##NAME(void *sums, const void *x, int64_t step,         \
                                                  int64_t apart, int64_t m, int64_t n)             \
    {                                                                                              \
        T *to = sums;                                                                              \
        const T *from = x;                                                                         \
        int64_t i = 0;                                                                             \
        step *= (W), apart *= (W);                                                                 \
        if (apart == (W)) {                                                                        \
            columns_of_##NAME(to, from, step, m, n * (W));                                         \
            return;                                                                                \
        }                                                                                          \
        for (; i + ABREAST <= n; i += ABREAST, to += ABREAST * (W), from += ABREAST * apart) {     \
            T here[ABREAST * (W)];                                                                 \
            memcpy(here, to, sizeof here);                                                         \
            for (int64_t k = 0; k < m; k++) {                                                      \
                for (int w = 0; w < ABREAST * (W); w++) {                                          \
                    here[w] = here[w] + from[k * step + w / (W) * apart + w % (W)];                \
                }                                                                                  \
            }                                                                                      \
            memcpy(to, here, sizeof here);                                                         \
        }                                                                                          \
        for (; i < n; i++, to += (W), from += apart) {                                             \
            for (int64_t k = 0; k < m; k++) {                                                      \
                for (int w = 0; w < (W); w++) {                                                    \
                    to[w] = to[w] + from[k * step + w];                                            \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
/* to[0] = the result of n elements, every `apart`; of m rows, one behind the other every `step`.
 * Rows are of at most a block, or of LANES where the elements lie apart. */
#define FOLD_ROWS(NAME, T, W)                                                                      \
    NPA_EACH_PROCESSOR static void rows_##NAME(const void *x, int64_t step, int64_t apart,         \
                                               int64_t n, int64_t m, void *results)                \
    {                                                                                              \
        T *to = results;                                                                           \
        int64_t r = 0;                                                                             \
        for (; n < FEW && r + ABREAST <= m; r += ABREAST) { /* all else is the identity */         \
            T lanes[LANES][ABREAST * (W)];                                                         \
            const T *from = (const T *)x + r * step * (W);                                         \
            for (int64_t k = 0; k < n && k < LANES; k++) {                                         \
                for (int w = 0; w < ABREAST * (W); w++) {                                          \
                    lanes[k][w] = 0 + from[(w / (W) * step + k * apart) * (W) + w % (W)];          \
                }                                                                                  \
            }                                                                                      \
            for (int64_t k = LANES; k < n; k++) {                                                  \
                T *to = lanes[k % LANES];                                                          \
                for (int w = 0; w < ABREAST * (W); w++) {                                          \
                    to[w] = to[w] + from[(w / (W) * step + k * apart) * (W) + w % (W)];            \
                }                                                                                  \
            }                                                                                      \
            for (int half = LANES / 2; half > 0; half /= 2) {                                      \
                for (int k = 0; k < half && k + half < n; k++) {                                   \
                    for (int w = 0; w < ABREAST * (W); w++) {                                      \
                        lanes[k][w] = lanes[k][w] + lanes[k + half][w];                            \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            memcpy(to + r * (W), lanes[0], sizeof lanes[0]);                                       \
        }                                                                                          \
        for (; r < m; r++) {                                                                       \
            const T *from = (const T *)x + r * step * (W);                                         \
            T lanes[LANES * (W)];                                                                  \
            for (int k = 0; k < LANES * (W); k++) {                                                \
                lanes[k] = 0;                                                                      \
            }                                                                                      \
            if (apart == 1) {                                                                      \
                INTO_LANES(lanes, from, n * (W), W);                                               \
            }                                                                                      \
            for (int64_t k = 0; apart != 1 && k < n * (W); k++) {                                  \
                lanes[k] = lanes[k] + from[k / (W) * apart * (W) + k % (W)];                       \
            }                                                                                      \
            HALVE(lanes, W)                                                                        \
            memcpy(to + r * (W), lanes, (W) * sizeof(T));                                          \
        }                                                                                          \
    }
/* n elements, each so many from the last one, into the lanes; before it: the last lane is the
 * first. */
#define INTO_LANES_APART(lanes, from, apart, n, T, W)                                              \
    do {                                                                                           \
        int64_t whole = (n) / LANES * LANES, k = 0;                                                \
        for (; k < whole && (apart) == -1; k += LANES) {                                           \
            const T *there = (from) - (k + LANES - 1) * (W);                                       \
            for (int e = 0; e < LANES * (W); e++) {                                                \
                (lanes)[e] = (lanes)[e] + there[e];                                                \
            }                                                                                      \
        }                                                                                          \
        for (; k < whole && (W) == 1 && (apart) == 2; k += LANES) {                                \
            const T *there = (from) + 2 * k;                                                       \
            for (int lane = 0; lane < LANES; lane++) {                                             \
                (lanes)[lane] = (lanes)[lane] + there[2 * lane];                                   \
            }                                                                                      \
        }                                                                                          \
        for (; k < whole && (W) == 1; k += LANES) {                                                \
            const T *there = (from) + k * (apart);                                                 \
            for (int lane = 0; lane < LANES; lane += FOUR, there += FOUR * (apart)) {              \
                for (int i = 0; i < FOUR; i++) {                                                   \
                    (lanes)[lane + i] = (lanes)[lane + i] + there[i * (apart)];                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int part = 0; part < LANES && (apart) != -1 && (W) > 1; part += SOME) {               \
            for (k = part; k < whole; k += LANES) {                                                \
                for (int e = 0; e < SOME * (W); e++) {                                             \
                    T *lane = (lanes) + part * (W) + e;                                            \
                    *lane = *lane + (from)[(k + e / (W)) * (apart) * (W) + e % (W)];               \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (k = whole * (W); k < (n) * (W); k++) {                                                \
            int64_t at = k / (W) % LANES;                                                          \
            T *lane = (lanes) + ((apart) == -1 ? LANES - 1 - at : at) * (W) + k % (W);             \
            *lane = *lane + (from)[k / (W) * (apart) * (W) + k % (W)];                             \
        }                                                                                          \
    } while (0)
/* The result of a chunk. Lanes are combined as halves, so it is the same from the last one to the
 * first. */
#define FOLD_CHUNK(NAME, T, W)                                                                     \
    NPA_EACH_PROCESSOR static void chunk_##NAME(const void *x, int64_t apart, int64_t n,           \
                                                void *result)                                      \
    {                                                                                              \
        T stack[LEVELS][LANES * (W)], lanes[LANES * (W)];                                          \
        int top = 0;                                                                               \
        for (int64_t at = 0, count = 0; at < n; at += BLOCK, count++) {                            \
            const T *from = (const T *)x + at * apart * (W);                                       \
            int64_t m = n - at < BLOCK ? n - at : BLOCK;                                           \
            for (int k = 0; k < LANES * (W); k++) {                                                \
                lanes[k] = 0;                                                                      \
            }                                                                                      \
            if (apart == 1) {                                                                      \
                INTO_LANES(lanes, from, m * (W), W);                                               \
            } else {                                                                               \
                INTO_LANES_APART(lanes, from, apart, m, T, W);                                     \
            }                                                                                      \
            for (int64_t bits = count; bits & 1; bits >>= 1) {                                     \
                top--;                                                                             \
                for (int k = 0; k < LANES * (W); k++) {                                            \
                    lanes[k] = stack[top][k] + lanes[k];                                           \
                }                                                                                  \
            }                                                                                      \
            memcpy(stack[top++], lanes, sizeof lanes);                                             \
        }                                                                                          \
        for (top -= 2; top >= 0; top--) {                                                          \
            for (int k = 0; k < LANES * (W); k++) {                                                \
                lanes[k] = stack[top][k] + lanes[k];                                               \
            }                                                                                      \
        }                                                                                          \
        HALVE(lanes, W)                                                                            \
        memcpy(result, lanes, (W) * sizeof(T));                                                    \
    }
#define FOLDS(NAME, T, W)                                                                          \
    FOLD(NAME, T, W) FOLD_COLUMNS(NAME, T, W) FOLD_ROWS(NAME, T, W) FOLD_CHUNK(NAME, T, W)
FOLDS(f4, float, 1)
FOLDS(f8, double, 1)
FOLDS(c8, float, 2)
FOLDS(c16, double, 2)

#define ARITHMETIC(NAME, TYPE, SIZE)                                                               \
    {combine_##NAME, lanes_##NAME, columns_##NAME, rows_##NAME, chunk_##NAME, TYPE, SIZE}
const npa_arithmetic npa_arithmetics[2][2] = {
    {ARITHMETIC(f4, NPY_FLOAT, 4), ARITHMETIC(f8, NPY_DOUBLE, 8)},
    {ARITHMETIC(c8, NPY_CFLOAT, 8), ARITHMETIC(c16, NPY_CDOUBLE, 16)}};
