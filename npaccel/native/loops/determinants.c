/* determinants.c: determinants of small matrices of doubles, without a call of LAPACK for each.
 *
 * NumPy takes them from LAPACK's factors (factors.h), by logarithms, which is proved of each size
 * when it is first met. What is unusual in a matrix is left to NumPy's loop. */
#include "loops/loops.h"
#include "loops/factors.h"
#include "loops/proof.h"

#include <string.h>

enum { LEAST = NPA_LEAST_FACTORED, MOST = NPA_MOST_FACTORED };

__attribute__((always_inline)) static inline bool determine(const char *from, int m,
                                                            const npy_intp *core, double *to)
{
    double a[MOST][MOST], logarithm = 0;
    int pivots[MOST];
    bool negative = false;
    if (!npa_take_matrix(a, m, from, core) || !npa_factor(a, m, pivots)) {
        return false;
    }
    NPA_UNROLLED(k, 0, m) {
        negative ^= (a[k][k] < 0) != (pivots[k] != k);
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
