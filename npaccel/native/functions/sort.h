/* sort.h: sorting on all threads, as sort.c does it and order.c uses it. */
#ifndef NPA_FUNCTIONS_SORT_H
#define NPA_FUNCTIONS_SORT_H

#include "functions/functions.h"

/* Whether (axis, kind, order, stable) of sort or argsort ask that equal elements keep their order,
 * along the last axis; -1: NumPy's to read */
int npa_read_sort(int ndim, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* Words are sorted by their upper halves, none of which is above `greatest`; equal ones keep their
 * order. False: no memory; nothing was moved. With the GIL */
bool npa_sort_words(uint64_t *words, npy_intp n, uint32_t greatest);

#endif
