/* sort.h: sorting on all threads, as sort.c does it and order.c uses it. */
#ifndef NPA_FUNCTIONS_SORT_H
#define NPA_FUNCTIONS_SORT_H

#include "functions/functions.h"

/* Whether (axis, kind, order, stable) of sort or argsort ask that equal elements keep their order,
 * along the last axis; -1: NumPy's to read */
int npa_read_sort(int ndim, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* A number's bits as an unsigned one of the same order: of negative floats all bits are turned, of
 * others the sign, if they have one. */
#define NPA_KEY(K, BITS)                                                                           \
    static inline K npa_key_##K(K x, bool real, K sign)                                            \
    {                                                                                              \
        return real && x >> (BITS - 1) ? (K)~x : x ^ sign;                                         \
    }
NPA_KEY(uint64_t, 64)
NPA_KEY(uint32_t, 32)
/* Words are sorted by their upper halves, none of which is above `greatest`; equal ones keep their
 * order. False: no memory; nothing was moved. With the GIL */
bool npa_sort_words(uint64_t *words, npy_intp n, uint32_t greatest);

#endif
