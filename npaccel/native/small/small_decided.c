/* small_decided.c: folds of truth values, which end where the answer is known. */
#include "small/small.h"
#include "small/ways.h"

#include <numpy/arrayscalars.h>

/* Whether `v` has a value other than `usual`. */
NPA_EACH_PROCESSOR static bool has_other(const npy_bool *v, npy_intp n, bool usual)
{
    npy_bool other = 0;
    for (npy_intp i = 0; i < n; i++) {
        other |= (npy_bool)((v[i] != 0) != usual);
    }
    return other != 0;
}

PyObject *npa_small_decided(PyArrayObject *a, const npa_small_how *how)
{
    enum { FIRST = 64, LONG = 1 << 16, MOST = 16 << 20 };
    const npy_bool *v = PyArray_DATA(a);
    npy_intp n = PyArray_SIZE(a), first = 0, piece = FIRST;
    bool usual = how->op == NPA_ALL || how->op == NPA_MIN, found = false;
    bool lies = PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a);
    if (!(usual || how->op == NPA_ANY || how->op == NPA_MAX) || PyArray_TYPE(a) != NPY_BOOL ||
        !lies || how->keepdims || how->axes != (1u << PyArray_NDIM(a)) - 1 || n == 0 ||
        npa_here != NULL || npa_waits(a)) {
        return NULL;
    }
    for (; !found && first < n && first < MOST;
         first += piece, piece = first < LONG ? first : LONG) {
        found = has_other(v + first, n - first < piece ? n - first : piece, usual);
    }
    if (!found && first < n) {
        return NULL;
    }
    return Py_NewRef(found != usual ? PyArrayScalar_True : PyArrayScalar_False);
}
