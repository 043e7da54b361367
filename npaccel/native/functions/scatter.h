/* scatter.h: what happens at places of an array, as scatter_values.c does it for scatter.c. */
#ifndef NPA_FUNCTIONS_SCATTER_H
#define NPA_FUNCTIONS_SCATTER_H

#include "functions/functions.h"

/* What happens at n places; which: of each its value, NULL: value k is of place k. */
typedef void npa_put_function(char *to, const int64_t *places, const int64_t *which, npy_intp n,
                              const char *values, npy_intp step, bool far);

typedef struct {
    const char *name;
    /* NumPy has a loop that takes indices; a NaN makes some of its loops tell of errors */
    bool indexed, extreme;
    npa_put_function *integers[4], *unsigned_integers[4], *floats[2], *complex_numbers[2], *truth;
} npa_put_operation;

/* x = v, of elements that long; NULL: of no such ones. */
npa_put_function *npa_put_of(npy_intp size);
/* By the name of a ufunc; NULL: it is none of these. */
const npa_put_operation *npa_put_operation_of(const char *name);
/* For elements of this type; NULL: NumPy's alone. */
npa_put_function *npa_put_kind_of(const npa_put_operation *o, int type);

#endif
