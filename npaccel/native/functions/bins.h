/* bins.h: numbers counted in bins, as bins.c does it and histogram.c asks for it. */
#ifndef NPA_FUNCTIONS_BINS_H
#define NPA_FUNCTIONS_BINS_H

#include "functions/functions.h"

#include <stdatomic.h>

enum { NPA_BINS_LEAST = 1 << 12 }; /* elements that are worth it */
/* Threads that have tables; tables of each, where there are few bins */
enum { NPA_BIN_TABLES = 16, NPA_BIN_WAYS = 4 };

typedef struct {
    const char *x;
    const double *weights; /* NULL: elements are counted */
    int type;              /* of x */
    const npa_buckets *uneven; /* bins of numbers, unless they are of equal width */
    npy_intp n, bins, shown; /* shown: without one for what is in none */
    const double *edges;     /* of bins of numbers; NULL: x are bins */
    double low, high;        /* of x, whose edges are to be found */
    _Atomic npy_intp highest; /* of x; -1: something is negative */
    uint32_t *tables;
    double *sums; /* of each part */
    int ntables, ways; /* each of them so many in turn */
    atomic_int busy[NPA_BIN_TABLES];
    bool used[NPA_BIN_TABLES];
    void *found;
} npa_binning;

/* The least and the greatest number. False: not all are finite, or integers are no doubles. */
bool npa_bins_limits(npa_binning *j);
/* Elements are counted. False: out of memory. */
bool npa_bins_count(npa_binning *j);
/* Weights are added. False: out of memory, or too much of it; or some sum is not finite. */
bool npa_bins_add_parts(npa_binning *j);

#endif
