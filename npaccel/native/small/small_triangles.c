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
    static const char *const known[] = {"m", "k"};
    PyArrayObject *m = (PyArrayObject *)args[0];
    PyObject *given[2] = {NULL, NULL};
    int overflow = 0;
    if (!npa_read_call(args, n, names, known, 2, given) || !npa_small_usual(args[0]) ||
        PyArray_NDIM(m) != 2 || (given[1] != NULL && !PyLong_CheckExact(given[1]))) {
        return NULL;
    }
    long k = given[1] != NULL ? PyLong_AsLongAndOverflow(given[1], &overflow) : 0;
    bool lower = f->what == LOWER_PART;
    PyArrayObject *made = overflow || k < -(1 << 20) || k > 1 << 20 ? NULL : npa_small_alike(m);
    npy_intp rows = PyArray_DIM(m, 0), row = PyArray_DIM(m, 1) * PyArray_ITEMSIZE(m);
    for (npy_intp i = 0; made != NULL && i < rows; i++) {
        npy_intp cut = (i + k + lower) * PyArray_ITEMSIZE(m); /* where the upper part begins */
        cut = cut < 0 ? 0 : cut > row ? row : cut;
        const char *from = PyArray_BYTES(m) + i * row;
        char *to = PyArray_BYTES(made) + i * row;
        if (lower) {
            memcpy(to, from, (size_t)cut);
            memset(to + cut, 0, (size_t)(row - cut));
        } else {
            memset(to, 0, (size_t)cut);
            memcpy(to + cut, from + cut, (size_t)(row - cut));
        }
    }
    return (PyObject *)made;
}
