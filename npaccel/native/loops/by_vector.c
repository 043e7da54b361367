/* by_vector.c: products of small matrices of floats and a vector, without a call of BLAS for each.
 *
 * BLAS adds the few terms of an element in an order that hangs on the processor and on how the
 * matrix lies. The orders that were met are written down here; which of them this BLAS has is found
 * when an extent and a layout are first met, and NumPy's loop is taken where it is none of them. */
#include "loops/loops.h"
#include "loops/proof.h"

#include <string.h>

enum { LEAST = 2, MOST = NPA_SHORT_VECTOR, SPAN = MOST - LEAST + 1 };
/* Terms in turn by fused multiply-adds; the same, but the second one first; or rounded products of
 * four terms, of which every other two are added first. */
enum order { IN_TURN, SECOND_FIRST, CROSSED, ORDERS };

#define UNROLLED(i, count) _Pragma("GCC unroll 4") for (npy_intp i = 0; i < count; i++)

/* core: the matrix's steps; the others lie one element behind the other. Compiled by itself for the
 * usual extents. */
#define BY_VECTOR(name, real, fused)                                                               \
    __attribute__((always_inline)) static inline bool name##_of(                                   \
        char *const *args, npy_intp n, npy_intp rows, npy_intp terms, enum order order,            \
        const npy_intp *steps, const npy_intp *core, real zero)                                    \
    {                                                                                              \
        int first = order == SECOND_FIRST, second = !first;                                        \
        real none = 0;                                                                             \
        for (npy_intp at = 0; at < n; at++) {                                                      \
            const char *a = args[0] + at * steps[0];                                               \
            const real *v = (const real *)(args[1] + at * steps[1]);                               \
            real *out = (real *)(args[2] + at * steps[2]), x[MOST];                                \
            real sums[MOST] = {0};                                                                 \
            UNROLLED(k, terms) {                                                                   \
                x[k] = v[k];                                                                       \
            }                                                                                      \
            UNROLLED(i, rows) {                                                                    \
                real row[MOST] = {0};                                                              \
                UNROLLED(k, terms) {                                                               \
                    row[k] = *(const real *)(a + i * core[0] + k * core[1]);                       \
                }                                                                                  \
                if (order == CROSSED) {                                                            \
                    sums[i] = (row[0] * x[0] + row[2] * x[2]) + (row[1] * x[1] + row[3] * x[3]);   \
                    continue;                                                                      \
                }                                                                                  \
                sums[i] = fused(row[second], x[second], row[first] * x[first]);                    \
                for (npy_intp k = 2; k < terms; k++) {                                             \
                    sums[i] = fused(row[k], x[k], sums[i]);                                        \
                }                                                                                  \
            }                                                                                      \
            UNROLLED(i, rows) {                                                                    \
                none = fused(sums[i], 0, none);                                                    \
                out[i] = sums[i] + zero;                                                           \
            }                                                                                      \
        }                                                                                          \
        return none == 0;                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static bool name(char *const *args, npy_intp n, npy_intp rows,              \
                                        npy_intp terms, enum order order, const npy_intp *steps,   \
                                        const npy_intp *core, double zero)                         \
    {                                                                                              \
        bool is3 = rows == 3 && terms == 3, is4 = rows == 4 && terms == 4;                         \
        if (is3 && order == IN_TURN) {                                                             \
            return name##_of(args, n, 3, 3, IN_TURN, steps, core, (real)zero);                     \
        }                                                                                          \
        if (is3 && order == SECOND_FIRST) {                                                        \
            return name##_of(args, n, 3, 3, SECOND_FIRST, steps, core, (real)zero);                \
        }                                                                                          \
        if (is4 && order == SECOND_FIRST) {                                                        \
            return name##_of(args, n, 4, 4, SECOND_FIRST, steps, core, (real)zero);                \
        }                                                                                          \
        if (is4 && order == CROSSED) {                                                             \
            return name##_of(args, n, 4, 4, CROSSED, steps, core, (real)zero);                     \
        }                                                                                          \
        return name##_of(args, n, rows, terms, order, steps, core, (real)zero);                    \
    }
BY_VECTOR(doubles, double, __builtin_fma)
BY_VECTOR(floats, float, __builtin_fmaf)

/* ----------------------------------------------------------------------------------- the layout */

/* A product as that of a matrix of `rows` and a vector behind it. */
typedef struct {
    int type;
    bool vector_first, turned; /* as it is called; the matrix's columns lie one behind the other */
    npy_intp rows, terms;
} layout;

bool npa_is_by_vector(const npy_intp *extents)
{
    npy_intp rows = extents[0] * extents[2];
    return (extents[0] == 1) != (extents[2] == 1) && rows >= LEAST && rows <= MOST &&
           extents[1] >= LEAST && extents[1] <= MOST;
}

static void call_numpy(const layout *l, npa_ufunc_loop of, char *const *args, npy_intp n,
                       const npy_intp *steps, const npy_intp *core)
{
    npy_intp size = npa_item_sizes[l->type], dims[4] = {n, l->rows, l->terms, 1};
    npy_intp all[9] = {steps[0], steps[1], steps[2], core[0], core[1], size, size, size, size};
    char *own[3] = {args[0], args[1], args[2]};
    if (l->vector_first) {
        own[0] = args[1], own[1] = args[0];
        dims[1] = 1, dims[3] = l->rows;
        all[0] = steps[1], all[1] = steps[0];
        all[3] = all[4] = size, all[5] = core[1], all[6] = core[0];
    }
    of.loop(own, dims, all, of.data);
}

/* --------------------------------------------------------------------------------------- proof */

enum { STACK = 8, DRAWS = 16 };
static atomic_int known[2][2][2][SPAN][SPAN];

/* By turns usual numbers; tiny ones, whose products vanish; zeros and ones of both signs; and tiny
 * ones whose products are all below zero. */
static double number_of(uint32_t state, int draw, double sign)
{
    static const double few[4] = {0.0, -0.0, 1.0, -1.0};
    double whole = (double)state / 4294967296.0, usual = whole - 0.4;
    switch (draw % 4) {
    case 0: return usual;
    case 1: return 1e-200 * usual;
    case 2: return few[state >> 30];
    default: return 1e-200 * sign * (whole + 0.1);
    }
}

static void fill(int type, void *to, int n, int draw, double sign, uint32_t *state)
{
    double tiny = type == NPY_FLOAT && draw % 2 ? 1e170 : 1;
    for (int i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        double number = tiny * number_of(*state, draw, sign);
        if (type == NPY_FLOAT) {
            ((float *)to)[i] = (float)number;
        } else {
            ((double *)to)[i] = number;
        }
    }
}

/* False: not all products are finite, as in products.c. */
static bool multiply(const layout *l, char *const *args, npy_intp n, enum order order,
                     const npy_intp *steps, const npy_intp *core, double zero)
{
    return (l->type == NPY_FLOAT ? floats : doubles)(args, n, l->rows, l->terms, order, steps,
                                                     core, zero);
}

static bool agrees(const layout *l, npa_ufunc_loop of, enum order order, double zero)
{
    double a[STACK * MOST * MOST], v[STACK * MOST], ours[STACK * MOST] = {0},
        numpys[STACK * MOST] = {0};
    npy_intp size = npa_item_sizes[l->type], rows = l->rows, terms = l->terms;
    const npy_intp core[2] = {l->turned ? size : terms * size, l->turned ? rows * size : size};
    const npy_intp steps[3] = {rows * terms * size, terms * size, rows * size};
    uint32_t state = 1;
    for (int draw = 0; draw < DRAWS; draw++) {
        fill(l->type, a, STACK * MOST * MOST, draw, -1, &state);
        fill(l->type, v, STACK * MOST, draw, 1, &state);
        char *args[3] = {(char *)a, (char *)v, (char *)ours};
        multiply(l, args, STACK, order, steps, core, zero);
        args[2] = (char *)numpys;
        call_numpy(l, of, args, STACK, steps, core);
        if (memcmp(ours, numpys, sizeof ours) != 0) {
            return false;
        }
    }
    return true;
}

typedef struct {
    const layout *l;
    npa_ufunc_loop of;
} question;

/* BLAS may add a sum to 0, so that -0.0 loses its sign, or store it as it is. */
static int prove(const void *what)
{
    const question *q = what;
    for (int how = 0; how < 2 * ORDERS; how++) {
        enum order order = (enum order)(how / 2);
        if ((order != CROSSED || q->l->terms == MOST) &&
            agrees(q->l, q->of, order, how % 2 ? 0.0 : -0.0)) {
            return NPA_PROVED + how;
        }
    }
    return NPA_OTHER;
}

static int find(const layout *l, npa_ufunc_loop of)
{
    const question q = {l, of};
    atomic_int *place = &known[l->type == NPY_FLOAT][l->vector_first][l->turned][l->rows - LEAST]
                              [l->terms - LEAST];
    return npa_proved(place, prove, &q);
}

/* ------------------------------------------------------------------------------------- products */

/* core: as of matmul's loop; matrix: the steps of the matrix. False: BLAS is given a copy, or it
 * lies otherwise than what was proved. */
static bool read_layout(layout *l, int type, const npy_intp *extents, const npy_intp *core,
                 npy_intp *matrix)
{
    npy_intp size = npa_item_sizes[type];
    bool first = extents[0] == 1;
    *l = (layout){type, first, false, first ? extents[2] : extents[0], extents[1]};
    matrix[0] = first ? core[3] : core[0], matrix[1] = first ? core[2] : core[1];
    l->turned = matrix[0] == size;
    npy_intp along = matrix[!l->turned], across = matrix[l->turned];
    return along == size && across % size == 0 &&
           across / size >= (l->turned ? l->rows : l->terms) &&
           (first ? core[1] : core[2]) == size && (first ? core[5] : core[4]) == size;
}

bool npa_by_vector_known(int type, npa_ufunc_loop of, const npy_intp *extents, const npy_intp *core)
{
    layout l;
    npy_intp matrix[2];
    return read_layout(&l, type, extents, core, matrix) && find(&l, of) >= NPA_PROVED;
}

bool npa_multiply_by_vector(int type, npa_ufunc_loop of, char *const *args, npy_intp n,
                            const npy_intp *extents, const npy_intp *steps, const npy_intp *core)
{
    layout l;
    npy_intp matrix[2];
    int found = read_layout(&l, type, extents, core, matrix) ? find(&l, of) : NPA_OTHER;
    if (found < NPA_PROVED) {
        return false;
    }
    bool first = l.vector_first;
    char *const own[3] = {args[first], args[!first], args[2]};
    const npy_intp each[3] = {steps[first], steps[!first], steps[2]};
    int how = found - NPA_PROVED;
    return multiply(&l, own, n, (enum order)(how / 2), each, matrix, how % 2 ? 0.0 : -0.0);
}
