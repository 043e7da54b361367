/* factors.h: LU factors of small matrices of doubles, as LAPACK has them. OpenBLAS factors small
 * matrices column by column; what it adds up before it subtracts, and that it multiplies by a
 * pivot's reciprocal, is written down here, and proved by who uses it. Numbers that are not finite,
 * or so large or small that a product may be, are for LAPACK itself. */
#ifndef NPA_LOOPS_FACTORS_H
#define NPA_LOOPS_FACTORS_H

#include <math.h>
#include <stdbool.h>

enum { NPA_LEAST_FACTORED = 2, NPA_MOST_FACTORED = 4 };

#define NPA_UNROLLED(i, from, to) _Pragma("GCC unroll 4") for (int i = from; i < to; i++)

static inline bool npa_is_usual(double x)
{
    const double largest = 1e75, smallest = 1e-75;
    double size = fabs(x);
    return (size < largest && size > smallest) || size == 0;
}

/* a: columns, which become the factors. pivots: the row that each one changed places with, in their
 * order. False: a pivot is unusual, or zero. */
__attribute__((always_inline)) static inline bool npa_factor(double (*a)[NPA_MOST_FACTORED], int m,
                                                             int *pivots)
{
    NPA_UNROLLED(j, 0, m) {
        for (int k = 0; k < j; k++) {
            double moved = a[j][k];
            a[j][k] = a[j][pivots[k]], a[j][pivots[k]] = moved;
        }
        NPA_UNROLLED(i, 1, m) {
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
        if (!npa_is_usual(of) || of == 0) {
            return false;
        }
        pivots[j] = pivot;
        for (int k = 0; pivot != j && k <= j; k++) {
            double moved = a[k][j];
            a[k][j] = a[k][pivot], a[k][pivot] = moved;
        }
        double reciprocal = 1 / of;
        for (int i = j + 1; i < m; i++) {
            a[j][i] *= reciprocal;
        }
    }
    return true;
}

/* The columns of a matrix with these steps. False: it is unusual. */
__attribute__((always_inline)) static inline bool npa_take_matrix(double (*a)[NPA_MOST_FACTORED],
                                                                  int m, const char *from,
                                                                  const npy_intp *core)
{
    bool usual = true;
    NPA_UNROLLED(j, 0, m) {
        NPA_UNROLLED(i, 0, m) {
            a[j][i] = *(const double *)(from + i * core[0] + j * core[1]);
            usual &= npa_is_usual(a[j][i]);
        }
    }
    return usual;
}

#endif
