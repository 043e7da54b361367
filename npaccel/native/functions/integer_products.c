/* integer_products.c: products of vectors, and np.dot of integers, by way of the matmul of
 * matrices. See rows.c. */
#include "functions/functions.h"
#include "functions/rows.h"
#include "small/ways.h"

enum { LEAST_BYTES = 1 << 15 }; /* small.c takes less */

bool npa_is_of_integers(PyObject *o, int most)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return PyArray_Check(o) && PyArray_ISINTEGER(a) && PyArray_NDIM(a) > 0 &&
           PyArray_NDIM(a) <= most;
}

bool npa_has_vector(PyObject *const *args)
{
    int ndim = 0;
    npy_intp bytes = 0;
    for (int k = 0; k < 2; k++) {
        if (!npa_is_of_integers(args[k], 2)) {
            return false;
        }
        ndim += PyArray_NDIM((PyArrayObject *)args[k]);
        bytes += PyArray_NBYTES((PyArrayObject *)args[k]);
    }
    return ndim < 4 && bytes >= LEAST_BYTES;
}

bool npa_has_short_vector(PyObject *const *args)
{
    int vectors = 0;
    for (int k = 0; k < 2; k++) {
        PyArrayObject *a = (PyArrayObject *)args[k];
        if (!PyArray_Check(args[k]) || !PyArray_ISFLOAT(a) || PyArray_NDIM(a) == 0) {
            return false;
        }
        vectors += PyArray_NDIM(a) == 1 && PyArray_DIM(a, 0) <= NPA_SHORT_VECTOR;
    }
    return vectors == 1;
}

/* A vector is a matrix of one row or one column. */
PyObject *npa_multiply_vector(PyUFuncObject *u, PyObject *const *args)
{
    PyObject *pair[2] = {NULL}, *made = NULL, *shown = NULL;
    npy_intp shape[NPY_MAXDIMS];
    PyArray_Dims kept = {shape, 0};
    for (int k = 0; k < 2; k++) {
        PyArrayObject *a = (PyArrayObject *)args[k];
        int ndim = PyArray_NDIM(a);
        bool vector = ndim == 1;
        npy_intp extent = PyArray_DIM(a, vector ? 0 : ndim - 2 + k), both[2] = {extent, extent};
        PyArray_Dims dims = {both, 2};
        both[k] = 1;
        pair[k] = vector ? PyArray_Newshape(a, &dims, NPY_CORDER) : Py_NewRef(args[k]);
        for (int i = 0; i < ndim - 2; i++) {
            shape[kept.len++] = PyArray_DIM(a, i);
        }
        if (!vector) {
            shape[kept.len++] = extent;
        }
    }
    if (pair[0] != NULL && pair[1] != NULL) {
        made = npa_rows(u, pair, 2, NULL);
    }
    if (made != NULL) {
        shown = PyArray_Newshape((PyArrayObject *)made, &kept, NPY_CORDER);
    }
    if (shown != NULL && PyArray_CheckExact(shown)) { /* it owns its memory then */
        Py_SETREF(shown, PyArray_NewCopy((PyArrayObject *)shown, NPY_CORDER));
    }
    Py_XDECREF(made), Py_XDECREF(pair[0]), Py_XDECREF(pair[1]);
    return shown != NULL ? PyArray_Return((PyArrayObject *)shown) : NULL; /* or is a number */
}

PyObject *npa_dot_integers(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                           PyObject *names)
{
    (void)what;
    bool method = self != NULL && PyArray_Check(self);
    bool both = names == NULL && npa_matmul != NULL && n == 2 - method;
    PyObject *pair[2] = {method ? self : both ? args[0] : NULL, both ? args[n - 1] : NULL};
    for (int k = 0; both && k < 2; k++) {
        both = npa_is_of_integers(pair[k], 2);
    }
    return both ? npa_rows(npa_matmul, pair, 2, NULL) : NULL;
}
