/* fold.h: in which order the elements of a sum of floats are taken. See Note [Reduction
 * order] of ir/nodes.py. */
#ifndef NPA_LOOPS_FOLD_H
#define NPA_LOOPS_FOLD_H

#include "loops/loops.h"

enum {
    NPA_FOLD_LANES = 32, /* of a result that has so many elements, or more than there are results */
    NPA_FOLD_BLOCK = 512,      /* elements that go to the lanes before these are combined */
    NPA_FOLD_BAND_BLOCK = 16,  /* the same where each result has one lane */
    NPA_FOLD_CHUNK = 32768,
    NPA_SHORT_FOLD = 512, /* rows below this join the ones that follow them in memory */
    /* Results that lie behind one another have a lane each, from so many on */
    NPA_FOLD_BAND = 8,
};

/* Axes are the request's, without those of 1: band and inner in the order of memory. A row is the
 * inner axes from number `first` on, as one; rows follow each other. banded: one lane per
 * result. */
typedef struct {
    int nband, ninner, first;
    int band[NPA_MAX_DIMS], inner[NPA_MAX_DIMS];
    int64_t row;
    bool banded;
} npa_order;

/* strides: of the operand, in bytes; size: bytes of its element; axes: a bit per reduced axis. */
void npa_fold_order(int ndim, const int64_t *shape, const int64_t *strides, uint32_t axes, int size,
                    npa_order *o);

/* to = older + to, width times; lanes[k % 32] += x[k]. */
typedef void npa_combine_function(const void *older, void *to, int64_t width);
typedef void npa_lanes_function(void *lanes, const void *x, int64_t n);
typedef struct npa_arithmetic {
    npa_combine_function *combine;
    npa_lanes_function *lanes;
    /* sums[i] += x[k * step + i * apart], k < m, i < n */
    void (*columns)(void *sums, const void *x, int64_t step, int64_t apart, int64_t m, int64_t n);
    /* results[r] = the sum of x[r * step + k * apart], k < n; n: at most NPA_FOLD_BLOCK, or
     * NPA_FOLD_LANES where `apart` is not 1 */
    void (*rows)(const void *x, int64_t step, int64_t apart, int64_t n, int64_t m, void *results);
    /* Of at most NPA_FOLD_CHUNK elements, each `apart` from the last one */
    void (*chunk)(const void *x, int64_t apart, int64_t n, void *result);
    int type, size; /* that it computes with */
} npa_arithmetic;
/* Of floats and of doubles; those of complex numbers add both parts alike. */
extern const npa_arithmetic npa_arithmetics[2][2];

#endif
