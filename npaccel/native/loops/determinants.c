/* determinants.c: determinants of small matrices of doubles, without a call of LAPACK for each.
 *
 * NumPy takes them from LAPACK's factors, by logarithms. OpenBLAS factors small matrices column by
 * column; what it adds up before it subtracts, and that it multiplies by a pivot's reciprocal, is
 * written down here, and proved of each size when it is first met. What is unusual in a matrix
 * (numbers that are not finite, or so large or small that a product may be, or a pivot of zero) is
 * left to NumPy's loop. */
#include "loops/loops.h"
#include "loops/proof.h"

#include <math.h>
#include <string.h>

enum { LEAST = 2, MOST = 4 };
static const double LARGEST = 1e75, SMALLEST = 1e-75;

#define UNROLLED(i, from, to) _Pragma("GCC unroll 4") for (int i = from; i < to; i++)

static inline bool is_usual(double x)
{
    double size = fabs(x);
    return (size < LARGEST && size > SMALLEST) || size == 0;
}

/* a: columns, which become the factors. False: it is unusual. */
__attribute__((always_inline)) static inline bool factor(double (*a)[MOST], int m, bool *negative)
{
    int pivots[MOST];
    UNROLLED(j, 0, m) {
        for (int k = 0; k < j; k++) {
            double moved = a[j][k];
            a[j][k] = a[j][pivots[k]], a[j][pivots[k]] = moved;
        }
        UNROLLED(i, 1, m) {
            double sum = 0;
            for (int k = 0; k < i && k < j; k++) {
                sum = __builtin_fma(a[k][i], a[j][k], sum);
            }
            a[j][i] = j > 0 ? a[j][i] - sum : a[j][i];
        }
        int pivot = j;
        for (int i = j + 1; i < m; i++) {
            pivot = fabs(a[j][i]) > fabs(a[j][pivot]) ? i : pivot;
        }
        double of = a[j][pivot];
        if (!is_usual(of) || of == 0) {
            return false;
        }
        pivots[j] = pivot;
        if (pivot != j) {
            *negative = !*negative;
            for (int k = 0; k <= j; k++) {
                double moved = a[k][j];
                a[k][j] = a[k][pivot], a[k][pivot] = moved;
            }
        }
        double reciprocal = 1 / of;
        for (int i = j + 1; i < m; i++) {
            a[j][i] *= reciprocal;
        }
    }
    return true;
}

__attribute__((always_inline)) static inline bool determine(const char *from, int m,
                                                            const npy_intp *core, double *to)
{
    double a[MOST][MOST], logarithm = 0;
    bool usual = true, negative = false;
    UNROLLED(j, 0, m) {
        UNROLLED(i, 0, m) {
            a[j][i] = *(const double *)(from + i * core[0] + j * core[1]);
            usual &= is_usual(a[j][i]);
        }
    }
    if (!usual || !factor(a, m, &negative)) {
        return false;
    }
    UNROLLED(k, 0, m) {
        negative ^= a[k][k] < 0;
        logarithm += log(fabs(a[k][k]));
    }
    *to = (negative ? -1.0 : 1.0) * exp(logarithm);
    return true;
}

/* Of matrices from `first` on: the number of the one that is unusual, or n. */
NPA_EACH_PROCESSOR static npy_intp determine_all(char *const *args, npy_intp first, npy_intp n,
                                                 int m, const npy_intp *steps,
                                                 const npy_intp *core)
{
    bool usual = true;
    for (; usual && first < n; first += usual) {
        const char *from = args[0] + first * steps[0];
        double *to = (double *)(args[1] + first * steps[1]);
        usual = m == 2   ? determine(from, 2, core, to)
                : m == 3 ? determine(from, 3, core, to)
                         : determine(from, 4, core, to);
    }
    return first;
}

/* --------------------------------------------------------------------------------------- proof */

enum { MATRICES = 128 };

static atomic_int known[MOST + 1];

static void call_numpy(npa_ufunc_loop of, char *const *args, npy_intp n, int m,
                       const npy_intp *steps, const npy_intp *core)
{
    npy_intp dims[2] = {n, m}, all[4] = {steps[0], steps[1], core[0], core[1]};
    char *own[2] = {args[0], args[1]};
    of.loop(own, dims, all, of.data);
}

/* Random numbers; and whole ones of few sizes, so that pivots may be one as well as another. */
typedef struct {
    npa_ufunc_loop of;
    int m;
} question;

static int prove(const void *what)
{
    const question *q = what;
    int m = q->m;
    double a[MATRICES * MOST * MOST], ours[MATRICES] = {0}, numpys[MATRICES] = {0};
    const npy_intp size = sizeof(double), steps[2] = {m * m * size, size};
    const npy_intp core[2] = {m * size, size};
    char *const mine[2] = {(char *)a, (char *)ours}, *const other[2] = {(char *)a, (char *)numpys};
    uint32_t state = 1;
    for (int i = 0; i < MATRICES * m * m; i++) {
        state = state * 1664525u + 1013904223u;
        double usual = (double)state / 4294967296.0 - 0.4;
        a[i] = i < MATRICES / 2 * m * m ? usual : (double)(state >> 29) - 3.0;
    }
    call_numpy(q->of, other, MATRICES, m, steps, core);
    for (npy_intp i = 0; i < MATRICES; i++) {
        i = determine_all(mine, i, MATRICES, m, steps, core);
        if (i < MATRICES) { /* singular */
            ours[i] = numpys[i];
        }
    }
    return memcmp(ours, numpys, sizeof ours) == 0 ? NPA_PROVED : NPA_OTHER;
}

bool npa_small_determinant(npa_ufunc_loop of, npy_intp m)
{
    if (m < LEAST || m > MOST || !npa_cpu_fuses()) {
        return false;
    }
    const question q = {of, (int)m};
    return npa_proved(&known[m], prove, &q) == NPA_PROVED;
}

void npa_determine_small(npa_ufunc_loop of, char *const *args, npy_intp n, npy_intp m,
                         const npy_intp *steps, const npy_intp *core)
{
    for (npy_intp i = 0; i < n; i++) {
        i = determine_all(args, i, n, (int)m, steps, core);
        if (i < n) {
            char *const own[2] = {args[0] + i * steps[0], args[1] + i * steps[1]};
            call_numpy(of, own, 1, (int)m, steps, core);
        }
    }
}
