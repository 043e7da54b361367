/* products.c: products of small matrices of floats, without a call of BLAS for each.
 *
 * BLAS adds the terms of an element in order, each by a fused multiply-add; so does this, and has
 * its bits therefore, as is proved when it is first asked. NumPy's own loop is taken where the
 * processor has no such instruction, and from seven terms on, which BLAS may take in other orders,
 * and as fast. */
#include "loops/loops.h"

#include <fenv.h>
#include <string.h>

/* `n` products. args, steps: as a ufunc's loop has them. Lanes behind the last column compute it
 * once more. */
#define MULTIPLY(name, real, fused, lanes)                                                         \
    NPA_EACH_PROCESSOR static void name(char *const *args, npy_intp n, const npy_intp *extents,    \
                                        const npy_intp *steps, const npy_intp *core, double zero)  \
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
                    *(real *)(out + j * core[5]) = sum[j] + (real)zero;                            \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
MULTIPLY(doubles_by_2, double, __builtin_fma, 2)
MULTIPLY(doubles_by_4, double, __builtin_fma, 4)
MULTIPLY(doubles_by_8, double, __builtin_fma, 8)
MULTIPLY(floats_by_4, float, __builtin_fmaf, 4)
MULTIPLY(floats_by_8, float, __builtin_fmaf, 8)

static void multiply(int type, char *const *args, npy_intp n, const npy_intp *extents,
                     const npy_intp *steps, const npy_intp *core, double zero)
{
    npy_intp columns = extents[2];
    if (type == NPY_FLOAT) {
        (columns <= 4 ? floats_by_4 : floats_by_8)(args, n, extents, steps, core, zero);
    } else {
        (columns == 2   ? doubles_by_2
         : columns <= 4 ? doubles_by_4
                        : doubles_by_8)(args, n, extents, steps, core, zero);
    }
}

/* ---------------------------------------------------------------------------------------- proof */

/* What was found by multiplying some matrices here and by NumPy's loop. */
static struct {
    bool tried, same;  /* bits, where BLAS takes the operands as they lie */
    bool scattered;    /* and where it does not */
    double zero;       /* what NumPy adds to a sum: -0.0 keeps its sign where all terms vanish */
    PyUFuncGenericFunction loop;
    void *data;
} proofs[2];

static int which(int type) { return type == NPY_FLOAT; }

/* Whether BLAS takes a matrix of such steps, or its transpose. */
static bool fits_blas(npy_intp size, const npy_intp *extents, const npy_intp *steps)
{
    for (int k = 0; k < 2; k++) {
        npy_intp wide = steps[k], tight = steps[1 - k];
        if (tight == size && wide % size == 0 && wide / size >= extents[1 - k]) {
            return true;
        }
    }
    return false;
}

enum { MOST = NPA_SMALL_MATRIX * NPA_SMALL_MATRIX * 2 }; /* elements of a scattered one */
/* Layouts: a bit for each operand that is turned; or both have a gap between elements */
enum { SCATTERED = 3 };

static void call_numpy(int type, char *const *args, npy_intp n, const npy_intp *extents,
                       const npy_intp *steps, const npy_intp *core)
{
    npy_intp dims[4] = {n, extents[0], extents[1], extents[2]}, all[9];
    memcpy(all, steps, 3 * sizeof *all);
    memcpy(all + 3, core, 6 * sizeof *all);
    char *own[3] = {args[0], args[1], args[2]};
    proofs[which(type)].loop(own, dims, all, proofs[which(type)].data);
}

/* Whether both give the same bits for matrices that lie so. scale: of numbers */
static bool agrees(int type, const npy_intp *extents, int layout, double scale)
{
    double a[MOST], b[MOST], ours[MOST], numpys[MOST];
    npy_intp size = type == NPY_FLOAT ? sizeof(float) : sizeof(double), steps[3] = {0};
    npy_intp apart = layout == SCATTERED ? 2 * size : size, core[6];
    uint32_t state = 1;
    for (int i = 0; i < MOST; i++) {
        double *of[] = {a, b};
        for (int k = 0; k < 2; k++) {
            state = state * 1664525u + 1013904223u;
            double number = ((double)state / 4294967296.0 - 0.4) * scale;
            if (type == NPY_FLOAT) {
                ((float *)of[k])[i] = (float)number;
            } else {
                of[k][i] = number;
            }
        }
    }
    for (int k = 0; k < 3; k++) {
        npy_intp rows = extents[k == 1], columns = extents[k == 0 ? 1 : 2];
        bool turned = k < 2 && (layout >> k & 1) && layout != SCATTERED;
        npy_intp item = k < 2 ? apart : size;
        core[2 * k] = turned ? item : columns * item;
        core[2 * k + 1] = turned ? rows * item : item;
    }
    multiply(type, (char *[]){(char *)a, (char *)b, (char *)ours}, 1, extents, steps, core,
             proofs[which(type)].zero);
    call_numpy(type, (char *[]){(char *)a, (char *)b, (char *)numpys}, 1, extents, steps, core);
    return memcmp(ours, numpys, (size_t)(extents[0] * extents[2] * size)) == 0;
}

/* For all extents; tiny: products vanish, some of them below zero. */
static bool agree(int type, int layout, bool tiny)
{
    double scale = !tiny ? 1.0 : type == NPY_FLOAT ? 1e-30 : 1e-200;
    for (npy_intp i = 0; i < 125; i++) {
        npy_intp extents[3] = {2 + i % 5, 2 + i / 5 % 5, 2 + i / 25};
        if (!agrees(type, extents, layout, scale)) {
            return false;
        }
    }
    return true;
}

static bool prove(PyUFuncObject *matmul, int type)
{
    int k = which(type);
    fenv_t flags;
    feholdexcept(&flags);
    proofs[k].tried = true;
    if (npa_find_loop(matmul, (int[]){type, type, type}, &proofs[k].loop, &proofs[k].data)) {
        proofs[k].zero = agree(type, 0, true) ? 0.0 : -0.0;
        proofs[k].same = true;
        for (int layout = 0; layout < SCATTERED; layout++) {
            proofs[k].same &= agree(type, layout, false) && agree(type, layout, true);
        }
        proofs[k].scattered = agree(type, SCATTERED, false) && agree(type, SCATTERED, true);
    }
    fesetenv(&flags);
    return proofs[k].same;
}

/* Whether these are multiplied here; extents: rows, terms, columns. With the GIL. */
bool npa_small_product(PyUFuncObject *matmul, int type, const npy_intp *extents)
{
    /* Vectors are multiplied by other functions of BLAS, in another order */
    for (int i = 0; i < 3; i++) {
        if (extents[i] < 2 || extents[i] > NPA_SMALL_MATRIX) {
            return false;
        }
    }
    if ((type != NPY_DOUBLE && type != NPY_FLOAT) || !npa_cpu_fuses()) {
        return false;
    }
    return proofs[which(type)].tried ? proofs[which(type)].same : prove(matmul, type);
}

void npa_multiply_small(int type, char *const *args, npy_intp n, const npy_intp *extents,
                        const npy_intp *steps, const npy_intp *core)
{
    npy_intp size = type == NPY_FLOAT ? sizeof(float) : sizeof(double);
    if (proofs[which(type)].scattered ||
        (fits_blas(size, extents, core) && fits_blas(size, extents + 1, core + 2) &&
         fits_blas(size, (npy_intp[]){extents[0], extents[2]}, core + 4))) {
        multiply(type, args, n, extents, steps, core, proofs[which(type)].zero);
    } else {
        call_numpy(type, args, n, extents, steps, core);
    }
}
