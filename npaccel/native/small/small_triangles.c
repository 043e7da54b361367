/* small_triangles.c: small matrices of zeros and elements of another array: diag, tril, triu. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <string.h>

/* diag(v) of a vector */
PyObject *npa_small_diag(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *v = (PyArrayObject *)args[0];
    if (n != 1 || names != NULL || !npa_small_usual(args[0]) || PyArray_NDIM(v) != 1) {
        return NULL;
    }
    npy_intp length = PyArray_DIM(v, 0), size = PyArray_ITEMSIZE(v), shape[2] = {length, length};
    if (length >= 1 << 12 || npa_small_is_large((size_t)(length * length * size))) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(PyArray_DESCR(v), 2, shape);
    if (made != NULL) {
        memset(PyArray_DATA(made), 0, (size_t)PyArray_NBYTES(made));
    }
    for (npy_intp k = 0; made != NULL && k < length; k++) {
        memcpy((char *)PyArray_DATA(made) + k * (length + 1) * size,
               (const char *)PyArray_DATA(v) + k * size, (size_t)size);
    }
    return (PyObject *)made;
}

/* tril(m, k=0), triu(m, k=0) of a matrix */
PyObject *npa_small_triangle(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names)
{
    PyArrayObject *m = (PyArrayObject *)args[0];
    int overflow = 0;
    long k = n == 2 && PyLong_CheckExact(args[1]) ? PyLong_AsLongAndOverflow(args[1], &overflow)
                                                  : 0;
    if (n > 2 || names != NULL || (n == 2 && !PyLong_CheckExact(args[1])) || overflow ||
        !npa_small_usual(args[0]) || PyArray_NDIM(m) != 2 || k < -(1 << 20) || k > 1 << 20) {
        return NULL;
    }
    PyArrayObject *made = npa_small_alike(m);
    npy_intp rows = PyArray_DIM(m, 0), columns = PyArray_DIM(m, 1), size = PyArray_ITEMSIZE(m);
    for (npy_intp i = 0; made != NULL && i < rows; i++) {
        npy_intp cut = i + k + (f->what == LOWER_PART); /* the first column of the upper part */
        cut = cut < 0 ? 0 : cut > columns ? columns : cut;
        bool lower = f->what == LOWER_PART;
        npy_intp low = lower ? 0 : cut, high = lower ? cut : columns;
        char *to = (char *)PyArray_DATA(made) + i * columns * size;
        memset(to, 0, (size_t)(columns * size));
        memcpy(to + low * size, (const char *)PyArray_DATA(m) + (i * columns + low) * size,
               (size_t)((high - low) * size));
    }
    return (PyObject *)made;
}
