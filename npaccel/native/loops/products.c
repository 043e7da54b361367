/* products.c: products of many small matrices of floats, without a call of BLAS for each.
 *
 * BLAS adds the terms of an element in order, each by a fused multiply-add; so does this, and has
 * its bits therefore. NumPy's own loop is taken where the processor has no such instruction, and
 * from seven terms on, which BLAS may take in other orders, and as fast. */
#include "loops/loops.h"

static bool has_fused(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma");
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

/* Whether these are multiplied here; extents: rows, terms, columns. */
bool npa_small_product(int type, const npy_intp *extents)
{
    /* Vectors are multiplied by other functions of BLAS, in another order */
    for (int i = 0; i < 3; i++) {
        if (extents[i] < 2 || extents[i] > NPA_SMALL_MATRIX) {
            return false;
        }
    }
    return (type == NPY_DOUBLE || type == NPY_FLOAT) && has_fused();
}

/* `n` products. args, steps: as a ufunc's loop has them. Lanes behind the last column compute it
 * once more. */
#define MULTIPLY(name, real, fused, lanes)                                                         \
    NPA_EACH_PROCESSOR static void name(char *const *args, npy_intp n, const npy_intp *extents,    \
                                        const npy_intp *steps, const npy_intp *core)               \
    {                                                                                              \
        npy_intp rows = extents[0], terms = extents[1], columns = extents[2];                      \
        for (npy_intp at = 0; at < n; at++) {                                                      \
            const char *a = args[0] + at * steps[0], *b = args[1] + at * steps[1];                 \
            char *out = args[2] + at * steps[2];                                                   \
            real right[NPA_SMALL_MATRIX][lanes], sum[lanes];                                       \
            for (npy_intp k = 0; k < terms; k++) {                                                 \
                for (npy_intp j = 0; j < lanes; j++) {                                             \
                    npy_intp column = j < columns ? j : columns - 1;                               \
                    right[k][j] = *(const real *)(b + k * core[2] + column * core[3]);             \
                }                                                                                  \
            }                                                                                      \
            for (npy_intp i = 0; i < rows; i++, a += core[0], out += core[4]) {                    \
                for (npy_intp j = 0; j < lanes; j++) {                                             \
                    sum[j] = 0;                                                                    \
                }                                                                                  \
                for (npy_intp k = 0; k < terms; k++) {                                             \
                    real left = *(const real *)(a + k * core[1]);                                  \
                    for (npy_intp j = 0; j < lanes; j++) {                                         \
                        sum[j] = fused(left, right[k][j], sum[j]);                                 \
                    }                                                                              \
                }                                                                                  \
                for (npy_intp j = 0; j < columns; j++) {                                           \
                    *(real *)(out + j * core[5]) = sum[j];                                         \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
MULTIPLY(doubles_by_2, double, __builtin_fma, 2)
MULTIPLY(doubles_by_4, double, __builtin_fma, 4)
MULTIPLY(doubles_by_8, double, __builtin_fma, 8)
MULTIPLY(floats_by_4, float, __builtin_fmaf, 4)
MULTIPLY(floats_by_8, float, __builtin_fmaf, 8)

/* As NumPy's loop of matmul, of matrices that npa_small_product takes. */
void npa_multiply_small(int type, char *const *args, npy_intp n, const npy_intp *extents,
                        const npy_intp *steps, const npy_intp *core)
{
    npy_intp columns = extents[2];
    if (type == NPY_FLOAT) {
        (columns <= 4 ? floats_by_4 : floats_by_8)(args, n, extents, steps, core);
    } else {
        (columns == 2   ? doubles_by_2
         : columns <= 4 ? doubles_by_4
                        : doubles_by_8)(args, n, extents, steps, core);
    }
}
