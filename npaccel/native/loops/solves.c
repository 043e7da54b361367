/* solves.c: small systems of linear equations of doubles and inverses, without a call of LAPACK for
 * each matrix, or of BLAS's copies for each column.
 *
 * How OpenBLAS goes from the factors (factors.h) to solutions: a single column by fused steps and
 * divisions; more columns by reciprocals, in blocks of four rows, two and one. What one block takes
 * from another it adds up before it subtracts. That is proved of each size when it is first met.
 * What is unusual is left to NumPy's loop, one matrix at a time. */
#include "loops/loops.h"
#include "loops/factors.h"
#include "loops/proof.h"

#include <string.h>

enum { LEAST = NPA_LEAST_FACTORED, MOST = NPA_MOST_FACTORED, WAYS = NPA_SOLVE_COLUMNS + 1 };

/* What is solved with: factors, by columns; where each row of a right side comes from. */
typedef struct {
    double a[MOST][MOST], reciprocals[MOST];
    int rows[MOST];
} factors;

__attribute__((always_inline)) static inline bool prepare(factors *f, int m, const char *from,
                                                          const npy_intp *core)
{
    int pivots[MOST];
    if (!npa_take_matrix(f->a, m, from, core) || !npa_factor(f->a, m, pivots)) {
        return false;
    }
    NPA_UNROLLED(i, 0, m) {
        f->rows[i] = i, f->reciprocals[i] = 1 / f->a[i][i];
    }
    NPA_UNROLLED(i, 0, m) {
        int moved = f->rows[i];
        f->rows[i] = f->rows[pivots[i]], f->rows[pivots[i]] = moved;
    }
    return true;
}

/* The block of a row: of three, the last one is apart. */
static inline int block_of(int row, int m) { return m == 3 && row == 2; }

/* y: a right side, which becomes the solution. single: it is the only one. */
__attribute__((always_inline)) static inline void substitute(const factors *f, int m, bool single,
                                                             double *y)
{
    NPA_UNROLLED(i, 1, m) {
        double apart = 0;
        NPA_UNROLLED(k, 0, i) {
            bool near = single || block_of(k, m) == block_of(i, m);
            apart = near ? apart : __builtin_fma(f->a[k][i], y[k], apart);
            y[i] = near ? __builtin_fma(-f->a[k][i], y[k], y[i]) : y[i];
        }
        y[i] = single || block_of(0, m) == block_of(i, m) ? y[i] : y[i] - apart;
    }
    _Pragma("GCC unroll 4") for (int i = m - 1; i >= 0; i--) {
        double apart = 0;
        bool any = !single && block_of(m - 1, m) != block_of(i, m);
        _Pragma("GCC unroll 4") for (int k = i + 1; k < m; k++) {
            bool near = single || block_of(k, m) == block_of(i, m);
            apart = near ? apart : __builtin_fma(f->a[k][i], y[k], apart);
        }
        y[i] = any ? y[i] - apart : y[i];
        _Pragma("GCC unroll 4") for (int k = m - 1; k > i; k--) {
            bool near = single || block_of(k, m) == block_of(i, m);
            y[i] = near ? __builtin_fma(-f->a[k][i], y[k], y[i]) : y[i];
        }
        y[i] = single ? y[i] / f->a[i][i] : y[i] * f->reciprocals[i];
    }
}

/* Right sides and solutions: where they are, the steps of a row and of a column. */
typedef struct {
    const char *from;
    char *to;
    npy_intp row, column, to_row, to_column, columns;
} sides;

/* False: one is unusual. */
__attribute__((always_inline)) static inline bool solve_sides(const factors *f, int m, bool single,
                                                              const sides *s, npy_intp column,
                                                              npy_intp to_column)
{
    bool usual = true;
    for (npy_intp c = 0; c < s->columns; c++) {
        double y[MOST];
        NPA_UNROLLED(i, 0, m) {
            y[i] = *(const double *)(s->from + f->rows[i] * s->row + c * column);
            usual &= npa_is_usual(y[i]);
        }
        substitute(f, m, single, y);
        NPA_UNROLLED(i, 0, m) {
            *(double *)(s->to + i * s->to_row + c * to_column) = y[i];
        }
    }
    return usual;
}

static const double identity[MOST][MOST] = {{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}};

__attribute__((always_inline)) static inline bool solve_one(const npa_solve *how, int m,
                                                            const char *from, sides *s,
                                                            const npy_intp *core)
{
    enum { ITEM = sizeof(double) };
    factors f;
    if (!prepare(&f, m, from, core)) {
        return false;
    }
    if (how->way == NPA_SOLVE_VECTOR || how->way == NPA_SOLVE_COLUMN) {
        return solve_sides(&f, m, true, s, 0, 0);
    }
    return s->column == ITEM && s->to_column == ITEM
               ? solve_sides(&f, m, false, s, ITEM, ITEM)
               : solve_sides(&f, m, false, s, s->column, s->to_column);
}

static sides sides_of(const npa_solve *how, const npy_intp *core)
{
    enum { ITEM = sizeof(double) };
    npy_intp m = how->cores[0];
    switch (how->way) {
    case NPA_SOLVE_INVERSE:
        return (sides){NULL, NULL, MOST * ITEM, ITEM, core[2], core[3], m};
    case NPA_SOLVE_VECTOR: return (sides){NULL, NULL, core[2], 0, core[3], 0, 1};
    default: return (sides){NULL, NULL, core[2], core[3], core[4], core[5], how->cores[1]};
    }
}

/* From `first` on: the number of the one that is unusual, or n. */
NPA_EACH_PROCESSOR static npy_intp solve_all(const npa_solve *how, char *const *args,
                                             npy_intp first, npy_intp n, const npy_intp *steps,
                                             const npy_intp *core)
{
    bool usual = true, inverse = how->way == NPA_SOLVE_INVERSE;
    sides s = sides_of(how, core);
    for (; usual && first < n; first += usual) {
        const char *from = args[0] + first * steps[0];
        s.from = inverse ? (const char *)identity : args[1] + first * steps[1];
        s.to = args[2 - inverse] + first * steps[2 - inverse];
        usual = how->cores[0] == 2   ? solve_one(how, 2, from, &s, core)
                : how->cores[0] == 3 ? solve_one(how, 3, from, &s, core)
                                     : solve_one(how, 4, from, &s, core);
    }
    return first;
}

static void call_numpy(const npa_solve *how, char *const *args, npy_intp n, const npy_intp *steps,
                       const npy_intp *core)
{
    bool inverse = how->way == NPA_SOLVE_INVERSE, columns = how->way >= NPA_SOLVE_COLUMN;
    int operands = inverse ? 2 : 3;
    npy_intp dims[3] = {n, how->cores[0], how->cores[1]}, all[9];
    char *own[3] = {args[0], args[1], args[operands - 1]};
    memcpy(all, steps, sizeof *all * (size_t)operands);
    memcpy(all + operands, core, sizeof *all * (size_t)(columns ? 6 : 4));
    how->of.loop(own, dims, all, how->of.data);
}

void npa_solve_small(const npa_solve *how, char *const *args, npy_intp n, const npy_intp *steps,
                     const npy_intp *core)
{
    int operands = how->way == NPA_SOLVE_INVERSE ? 2 : 3;
    for (npy_intp i = 0; i < n; i++) {
        i = solve_all(how, args, i, n, steps, core);
        if (i < n) {
            char *own[3];
            for (int k = 0; k < operands; k++) {
                own[k] = args[k] + i * steps[k];
            }
            call_numpy(how, own, 1, steps, core);
        }
    }
}

/* --------------------------------------------------------------------------------------- proof */

/* Matrices, and columns of the other operand; of one matrix so many that BLAS's threads share
 * them */
enum { MATRICES = 96, COLUMNS = 7, MANY = 20000 };
static atomic_int known[WAYS][MOST + 1];

/* Random numbers; and whole ones of few sizes, so that pivots may be one as well as another. */
static void fill(double *to, npy_intp n, uint32_t state)
{
    for (npy_intp i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        to[i] = i < n / 2 ? (double)state / 4294967296.0 - 0.4 : (double)(state >> 29) - 3.0;
    }
}

/* Whether `n` matrices with so many columns have the same bits; of the singular ones NumPy's. */
static bool is_same(const npa_solve *like, npy_intp n, npy_intp columns)
{
    enum { ITEM = sizeof(double) };
    npa_solve how = *like;
    bool inverse = how.way == NPA_SOLVE_INVERSE, vector = how.way == NPA_SOLVE_VECTOR;
    npy_intp m = how.cores[0], row = vector ? ITEM : columns * ITEM, each = m * columns;
    npy_intp steps[3] = {m * m * ITEM, each * ITEM, each * ITEM};
    npy_intp with[6] = {m * ITEM, ITEM, row, vector ? row : ITEM, row, ITEM};
    double *a = calloc((size_t)(n * (m * m + 3 * each)), ITEM), *b = a + n * m * m,
           *ours = b + n * each, *numpys = ours + n * each;
    if (a == NULL) {
        return false;
    }
    how.cores[1] = columns;
    fill(a, n * m * m, 1), fill(b, n * each, 2);
    char *const mine[3] = {(char *)a, (char *)(inverse ? ours : b), (char *)ours};
    char *const other[3] = {(char *)a, (char *)(inverse ? numpys : b), (char *)numpys};
    call_numpy(&how, other, n, steps, with);
    for (npy_intp i = 0; i < n; i++) {
        i = solve_all(&how, mine, i, n, steps, with);
        if (i < n) {
            memcpy(ours + i * each, numpys + i * each, (size_t)steps[1]);
        }
    }
    bool same = memcmp(ours, numpys, (size_t)(n * steps[1])) == 0;
    free(a);
    return same;
}

static int prove(const void *what)
{
    const npa_solve *how = what;
    bool columns = how->way == NPA_SOLVE_COLUMNS;
    npy_intp some = how->way == NPA_SOLVE_INVERSE ? how->cores[0] : columns ? COLUMNS : 1;
    bool same = is_same(how, MATRICES, some) && (!columns || is_same(how, 1, MANY));
    return same ? NPA_PROVED : NPA_OTHER;
}

bool npa_solve_known(const npa_solve *how)
{
    npy_intp m = how->cores[0];
    return m >= LEAST && m <= MOST && npa_cpu_fuses() &&
           npa_proved(&known[how->way][m], prove, how) == NPA_PROVED;
}
