/* fold.h: sums of floats, in an order of their own. */
#ifndef NPA_RUN_FOLD_H
#define NPA_RUN_FOLD_H

#include "loops/fold.h"
#include "run/run.h"

/* What is folded. Steps in bytes, per axis of the operand; mask, initial: NULL where there is
 * none. */
typedef struct {
    const npa_rule *rule;
    int ndim, in_type, out_type;
    uint32_t axes;
    const int64_t *shape, *in_step, *out_step, *mask_step;
    const char *in, *mask, *initial;
    char *out;
} npa_folding;

/* Kinds raised, or -1: out of memory, and nothing was written. */
int npa_fold(const npa_folding *of);
/* One chunk of a row, piece by piece (a multiple of NPA_FOLD_BLOCK but for the last): its elements
 * are given in the type that is computed with, which npa_fold_arithmetic tells of a rule. */
const npa_arithmetic *npa_fold_arithmetic(const npa_rule *rule, int *type);
size_t npa_fold_state_bytes(void);
void npa_fold_begin(void *state, const npa_arithmetic *a);
void npa_fold_take(void *state, const npa_arithmetic *a, const void *x, int64_t n);
void npa_fold_end(void *state, const npa_arithmetic *a, void *out);
/* Results from what each chunk of each row gave, in order. Kinds raised. */
int npa_fold_combine(const npa_folding *of, const char *parts);
/* Of the kinds raised those that are told: an overflow where some result is infinite, as kernels
 * have it. */
int npa_fold_told(const npa_folding *of, int kinds);
/* Whether the request is a sum in this order; run it, as npa_fold. */
bool npa_folds_in_order(const npa_request *r);
int npa_fold_request(npa_queue *q, npa_request *r);
/* What it folds, but for where that lies. */
npa_folding npa_folding_of(npa_request *r);

#endif
