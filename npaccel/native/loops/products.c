/* products.c: products of small matrices of floats, without a call of BLAS for each.
 *
 * BLAS adds the terms of an element in order, each by a fused multiply-add; so does this, and has
 * its bits therefore, as is proved of each layout of the operands when it is first met. NumPy's
 * loop is taken where the processor has no such instruction, and from seven terms on, which BLAS
 * may take in other orders, and as fast. */
#include "loops/loops.h"
#include "loops/proof.h"

#include <string.h>

#define UNROLLED(i, count) _Pragma("GCC unroll 8") for (npy_intp i = 0; i < count; i++)

/* `n` products. args, steps: as a ufunc's loop has them. Lanes behind the last column compute it
 * once more. Compiled by itself for the usual extents. */
#define MULTIPLY(name, real, fused, lanes)                                                         \
    __attribute__((always_inline)) static inline bool name##_of(                                   \
        char *const *args, npy_intp n, npy_intp rows, npy_intp terms, npy_intp columns,            \
        const npy_intp *steps, const npy_intp *core, real zero)                                    \
    {                                                                                              \
        real none[lanes] = {0};                                                                    \
        for (npy_intp at = 0; at < n; at++) {                                                      \
            const char *a = args[0] + at * steps[0], *b = args[1] + at * steps[1];                 \
            char *out = args[2] + at * steps[2];                                                   \
            real right[NPA_SMALL_MATRIX][lanes], sum[lanes];                                       \
            UNROLLED(k, terms) {                                                                   \
                UNROLLED(j, lanes) {                                                               \
                    npy_intp column = j < columns ? j : columns - 1;                               \
                    right[k][j] = *(const real *)(b + k * core[2] + column * core[3]);             \
                }                                                                                  \
            }                                                                                      \
            UNROLLED(i, rows) {                                                                    \
                UNROLLED(j, lanes) {                                                               \
                    sum[j] = 0;                                                                    \
                }                                                                                  \
                UNROLLED(k, terms) {                                                               \
                    real left = *(const real *)(a + i * core[0] + k * core[1]);                    \
                    UNROLLED(j, lanes) {                                                           \
                        sum[j] = fused(left, right[k][j], sum[j]);                                 \
                    }                                                                              \
                }                                                                                  \
                UNROLLED(j, lanes) {                                                               \
                    none[j] = fused(sum[j], 0, none[j]);                                           \
                }                                                                                  \
                UNROLLED(j, columns) {                                                             \
                    *(real *)(out + i * core[4] + j * core[5]) = sum[j] + zero;                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        bool finite = true;                                                                        \
        UNROLLED(j, lanes) {                                                                       \
            finite &= none[j] == 0;                                                                \
        }                                                                                          \
        return finite;                                                                             \
    }                                                                                              \
    NPA_EACH_PROCESSOR static bool name(char *const *args, npy_intp n, const npy_intp *extents,    \
                                        const npy_intp *steps, const npy_intp *core, double zero)  \
    {                                                                                              \
        npy_intp rows = extents[0], terms = extents[1], columns = extents[2];                      \
        enum { MOST = lanes < NPA_SMALL_MATRIX ? lanes : NPA_SMALL_MATRIX };                       \
        bool square = rows == columns && terms == columns;                                         \
        if (square && columns == 3) {                                                              \
            return name##_of(args, n, 3, 3, 3, steps, core, (real)zero);                           \
        }                                                                                          \
        if (square && columns == MOST) {                                                           \
            return name##_of(args, n, MOST, MOST, MOST, steps, core, (real)zero);                  \
        }                                                                                          \
        return name##_of(args, n, rows, terms, columns, steps, core, (real)zero);                  \
    }
MULTIPLY(doubles_by_2, double, __builtin_fma, 2)
MULTIPLY(doubles_by_4, double, __builtin_fma, 4)
MULTIPLY(doubles_by_8, double, __builtin_fma, 8)
MULTIPLY(floats_by_4, float, __builtin_fmaf, 4)
MULTIPLY(floats_by_8, float, __builtin_fmaf, 8)

/* False: not all products are finite, of which BLAS may make and tell something else where it fills
 * up its registers by zeros. */
static bool multiply(int type, char *const *args, npy_intp n, const npy_intp *extents,
                     const npy_intp *steps, const npy_intp *core, double zero)
{
    npy_intp columns = extents[2];
    if (type == NPY_FLOAT) {
        return (columns <= 4 ? floats_by_4 : floats_by_8)(args, n, extents, steps, core, zero);
    }
    return (columns == 2   ? doubles_by_2
            : columns <= 4 ? doubles_by_4
                           : doubles_by_8)(args, n, extents, steps, core, zero);
}

/* ---------------------------------------------------------------------------------------- proof */

/* How a matrix lies: as in C, turned, or so that BLAS has to be given a copy. */
enum { PLAIN, TURNED, SCATTERED, WAYS };
enum { LAYOUTS = WAYS * WAYS * WAYS }; /* of two operands and a result */
/* What is known of a layout. BLAS has other functions for some of them, which add a sum to 0 or
 * keep it: so -0.0 keeps its sign where all terms vanish, or loses it. */
enum { KEEPS_SIGN = NPA_PROVED, LOSES_SIGN };
enum { NUMBERS = NPA_SMALL_MATRIX * NPA_SMALL_MATRIX * 2 }; /* of a scattered matrix */

typedef struct {
    npa_ufunc_loop of;
    atomic_int layouts[LAYOUTS];
} multiplier;

static multiplier multipliers[2];

static multiplier *find_multiplier(int type) { return &multipliers[type == NPY_FLOAT]; }

static int way_of(npy_intp size, npy_intp rows, npy_intp columns, const npy_intp *steps)
{
    if (steps[1] == size && steps[0] % size == 0 && steps[0] / size >= columns) {
        return PLAIN;
    }
    bool turned = steps[0] == size && steps[1] % size == 0 && steps[1] / size >= rows;
    return turned ? TURNED : SCATTERED;
}

static int layout_of(npy_intp size, const npy_intp *extents, const npy_intp *core)
{
    int a = way_of(size, extents[0], extents[1], core);
    int b = way_of(size, extents[1], extents[2], core + 2);
    return a + WAYS * (b + WAYS * way_of(size, extents[0], extents[2], core + 4));
}

static void call_numpy(int type, char *const *args, npy_intp n, const npy_intp *extents,
                       const npy_intp *steps, const npy_intp *core)
{
    const multiplier *m = find_multiplier(type);
    npy_intp dims[4] = {n, extents[0], extents[1], extents[2]}, all[9];
    memcpy(all, steps, 3 * sizeof *all);
    memcpy(all + 3, core, 6 * sizeof *all);
    char *own[3] = {args[0], args[1], args[2]};
    m->of.loop(own, dims, all, m->of.data);
}

static void draw(int type, double scale, void *to, uint32_t *state)
{
    for (int i = 0; i < NUMBERS; i++) {
        *state = *state * 1664525u + 1013904223u;
        double number = ((double)*state / 4294967296.0 - 0.4) * scale;
        if (type == NPY_FLOAT) {
            ((float *)to)[i] = (float)number;
        } else {
            ((double *)to)[i] = number;
        }
    }
}

/* Whether both give the same bits for matrices that lie so. scale: of numbers */
static bool agrees(int type, const npy_intp *extents, int layout, double scale, double zero)
{
    double a[NUMBERS], b[NUMBERS], ours[NUMBERS] = {0}, numpys[NUMBERS] = {0};
    npy_intp size = npa_item_sizes[type], core[6];
    const npy_intp steps[3] = {0};
    uint32_t state = 1;
    draw(type, scale, a, &state);
    draw(type, scale, b, &state);
    for (int k = 0; k < 3; k++, layout /= WAYS) {
        npy_intp rows = extents[k == 1], columns = extents[k == 0 ? 1 : 2];
        npy_intp item = layout % WAYS == SCATTERED ? 2 * size : size;
        bool turned = layout % WAYS == TURNED;
        core[2 * k] = turned ? item : columns * item;
        core[2 * k + 1] = turned ? rows * item : item;
    }
    char *args[3] = {(char *)a, (char *)b, (char *)ours};
    multiply(type, args, 1, extents, steps, core, zero);
    args[2] = (char *)numpys;
    call_numpy(type, args, 1, extents, steps, core);
    return memcmp(ours, numpys, sizeof ours) == 0;
}

/* For all extents; where tiny numbers are multiplied, products vanish, some of them below zero. */
static bool agree(int type, int layout, double zero)
{
    double tiny = type == NPY_FLOAT ? 1e-30 : 1e-200;
    for (npy_intp i = 0; i < 125; i++) {
        npy_intp extents[3] = {2 + i % 5, 2 + i / 5 % 5, 2 + i / 25};
        if (!agrees(type, extents, layout, tiny, zero) ||
            !agrees(type, extents, layout, 1.0, zero)) {
            return false;
        }
    }
    return true;
}

typedef struct { int type, layout; } question;

static int prove(const void *what)
{
    const question *q = what;
    return agree(q->type, q->layout, -0.0)  ? KEEPS_SIGN
           : agree(q->type, q->layout, 0.0) ? LOSES_SIGN
                                            : NPA_OTHER;
}

static int known(int type, int layout)
{
    const question q = {type, layout};
    return npa_proved(&find_multiplier(type)->layouts[layout], prove, &q);
}

bool npa_small_product(PyUFuncObject *matmul, int type, const npy_intp *extents)
{
    bool by_vector = npa_is_by_vector(extents);
    for (int i = 0; !by_vector && i < 3; i++) {
        if (extents[i] < 2 || extents[i] > NPA_SMALL_MATRIX) {
            return false;
        }
    }
    if ((type != NPY_DOUBLE && type != NPY_FLOAT) || !npa_cpu_fuses()) {
        return false;
    }
    multiplier *m = find_multiplier(type);
    return m->of.loop != NULL ||
           npa_find_loop(matmul, (int[]){type, type, type}, &m->of.loop, &m->of.data);
}

bool npa_small_product_is_ours(int type, const npy_intp *extents, const npy_intp *core)
{
    /* Vectors are multiplied by other functions of BLAS, in another order */
    return !npa_is_by_vector(extents) ||
           npa_by_vector_known(type, find_multiplier(type)->of, extents, core);
}

/* Whether some of them are a matrix by its own transpose, for which BLAS has another function. */
static bool are_squares(char *const *args, npy_intp n, const npy_intp *extents,
                        const npy_intp *steps, const npy_intp *core)
{
    npy_intp apart = args[0] - args[1], step = steps[1] - steps[0];
    bool turned = extents[0] == extents[2] && core[0] == core[3] && core[1] == core[2];
    return turned && (apart == 0 || (step != 0 && apart % step == 0 && apart / step > 0 &&
                                     apart / step < n));
}

void npa_multiply_small(int type, char *const *args, npy_intp n, const npy_intp *extents,
                        const npy_intp *steps, const npy_intp *core)
{
    npa_ufunc_loop of = find_multiplier(type)->of;
    if (npa_is_by_vector(extents)) {
        if (!npa_multiply_by_vector(type, of, args, n, extents, steps, core)) {
            call_numpy(type, args, n, extents, steps, core);
        }
        return;
    }
    int found = are_squares(args, n, extents, steps, core)
                    ? NPA_OTHER
                    : known(type, layout_of(npa_item_sizes[type], extents, core));
    double zero = found == KEEPS_SIGN ? -0.0 : 0.0;
    if (found < NPA_PROVED || !multiply(type, args, n, extents, steps, core, zero)) {
        call_numpy(type, args, n, extents, steps, core);
    }
}
