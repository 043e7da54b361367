/* array.h: Array as its slots share it; for the files of its slots. See array.c. */
#ifndef NPA_ARRAY_H
#define NPA_ARRAY_H

#include "numpy/numpy.h"

static inline bool ours(PyObject *o) { return Py_IS_TYPE(o, npa_array_type); }

/* -------------------------------------------------------------------------------------- array.c */

size_t npa_result_bytes(PyObject *x, PyObject *y);
/* ---------------------------------------------------------------------------------- reflected.c */

/* Whether Python would ask b first if `a` was an ndarray. */
bool npa_goes_second(PyObject *a, PyObject *b);
/* The operator on `a` as an ndarray, as Python has it. */
PyObject *npa_operate_second(PyObject *a, PyObject *b, binaryfunc in_python);
PyObject *npa_compare_second(PyObject *a, PyObject *b, int how);

/* ----------------------------------------------------------------------------------- elements.c */

PyObject *npa_array_subscript(PyObject *a, PyObject *key);
PyObject *npa_array_item(PyObject *a, Py_ssize_t i);
int npa_array_assign_item(PyObject *a, Py_ssize_t i, PyObject *value);

/* -------------------------------------------------------------------------------- array_ufunc.c */

PyObject *npa_array_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

#endif
