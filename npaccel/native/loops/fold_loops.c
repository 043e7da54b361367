/* fold_loops.c: sums of blocks, lanes and short rows, of floats and doubles. */
#include "loops/loops.h"
#include "loops/fold.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-associative-math")
#endif

enum { LANES = NPA_FOLD_LANES, ABREAST = 8 }; /* ABREAST: short rows, at once */
enum { BLOCK = NPA_FOLD_BLOCK, LEVELS = 8 };   /* LEVELS: of the counter of a chunk's blocks */

/* n elements into the lanes; the lanes as halves, the result in the first. */
#define INTO_LANES(lanes, from, n)                                                                 \
    do {                                                                                           \
        int64_t done = 0;                                                                          \
        for (; done + LANES <= (n); done += LANES) {                                               \
            for (int k = 0; k < LANES; k++) {                                                      \
                (lanes)[k] = (lanes)[k] + (from)[done + k];                                        \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; done < (n); done++, k++) {                                                 \
            (lanes)[k] = (lanes)[k] + (from)[done];                                                \
        }                                                                                          \
    } while (0)
#define HALVE(lanes)                                                                               \
    for (int half = LANES / 2; half > 0; half /= 2) {                                              \
        for (int k = 0; k < half; k++) {                                                           \
            (lanes)[k] = (lanes)[k] + (lanes)[k + half];                                           \
        }                                                                                          \
    }
#define FOLD(NAME, T)                                                                              \
    NPA_EACH_PROCESSOR static void combine_##NAME(const void *older, void *to, int64_t width)      \
    {                                                                                              \
        const T *a = older;                                                                        \
        T *b = to;                                                                                 \
        for (int64_t i = 0; i < width; i++) {                                                      \
            b[i] = a[i] + b[i];                                                                    \
        }                                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static void lanes_##NAME(void *lanes, const void *x, int64_t n)             \
    {                                                                                              \
        T here[LANES];                                                                             \
        memcpy(here, lanes, sizeof here);                                                          \
        INTO_LANES(here, (const T *)x, n);                                                         \
        memcpy(lanes, here, sizeof here);                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static void columns_##NAME(void *sums, const void *x, int64_t step,         \
                                                  int64_t m, int64_t n)                            \
    {                                                                                              \
        T *restrict to = sums;                                                                     \
        const T *restrict from = x;                                                                \
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
    }
/* to[0] = the result of n rows of at most a block each, one behind the other every `step`
 * elements. */
#define FOLD_ROWS(NAME, T)                                                                    \
    NPA_EACH_PROCESSOR static void rows_##NAME(const void *x, int64_t step, int64_t n, int64_t m, \
                                           void *results)                                     \
    {                                                                                         \
        T *to = results;                                                                      \
        int64_t r = 0;                                                                        \
        for (; n <= LANES && r + ABREAST <= m; r += ABREAST) { /* all else is the identity */ \
            T lanes[LANES][ABREAST];                                                          \
            for (int k = 0; k < n; k++) {                                                     \
                for (int w = 0; w < ABREAST; w++) {                                           \
                    lanes[k][w] = 0 + ((const T *)x)[(r + w) * step + k];                     \
                }                                                                             \
            }                                                                                 \
            for (int half = LANES / 2; half > 0; half /= 2) {                                 \
                for (int k = 0; k < half && k + half < n; k++) {                              \
                    for (int w = 0; w < ABREAST; w++) {                                       \
                        lanes[k][w] = lanes[k][w] + lanes[k + half][w];                       \
                    }                                                                         \
                }                                                                             \
            }                                                                                 \
            memcpy(to + r, lanes[0], sizeof lanes[0]);                                        \
        }                                                                                     \
        for (; r < m; r++) {                                                                  \
            const T *from = (const T *)x + r * step;                                          \
            T lanes[LANES];                                                                   \
            for (int k = 0; k < LANES; k++) {                                                 \
                lanes[k] = 0;                                                                 \
            }                                                                                 \
            INTO_LANES(lanes, from, n);                                                       \
            HALVE(lanes)                                                                      \
            to[r] = lanes[0];                                                                 \
        }                                                                                     \
    }
/* The result of a chunk, one element behind the other. */
#define FOLD_CHUNK(NAME, T)                                                                        \
    NPA_EACH_PROCESSOR static void chunk_##NAME(const void *x, int64_t n, void *result)            \
    {                                                                                              \
        T stack[LEVELS][LANES], lanes[LANES];                                                      \
        int top = 0;                                                                               \
        for (int64_t at = 0, count = 0; at < n; at += BLOCK, count++) {                            \
            const T *from = (const T *)x + at;                                                     \
            int64_t m = n - at < BLOCK ? n - at : BLOCK;                                           \
            for (int k = 0; k < LANES; k++) {                                                      \
                lanes[k] = 0;                                                                      \
            }                                                                                      \
            INTO_LANES(lanes, from, m);                                                            \
            for (int64_t bits = count; bits & 1; bits >>= 1) {                                     \
                top--;                                                                             \
                for (int k = 0; k < LANES; k++) {                                                  \
                    lanes[k] = stack[top][k] + lanes[k];                                           \
                }                                                                                  \
            }                                                                                      \
            memcpy(stack[top++], lanes, sizeof lanes);                                             \
        }                                                                                          \
        for (top -= 2; top >= 0; top--) {                                                          \
            for (int k = 0; k < LANES; k++) {                                                      \
                lanes[k] = stack[top][k] + lanes[k];                                               \
            }                                                                                      \
        }                                                                                          \
        HALVE(lanes)                                                                               \
        memcpy(result, lanes, sizeof lanes[0]);                                                    \
    }
FOLD(f4, float)
FOLD(f8, double)
FOLD_ROWS(f4, float)
FOLD_ROWS(f8, double)
FOLD_CHUNK(f4, float)
FOLD_CHUNK(f8, double)

#define ARITHMETIC(NAME, TYPE, SIZE)                                                              \
    {combine_##NAME, lanes_##NAME, columns_##NAME, rows_##NAME, chunk_##NAME, TYPE, SIZE}
const npa_arithmetic npa_arithmetics[2] = {ARITHMETIC(f4, NPY_FLOAT, 4),
                                           ARITHMETIC(f8, NPY_DOUBLE, 8)};
