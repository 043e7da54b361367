/* small_counts.c: how many elements of small arrays are true, or have each value. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* Whether this NumPy counts in integers of Python's, not in its own; asked once, of a plain array.
 * -1: an error, or it is being asked */
static int counts_in_python(PyObject *a)
{
    static int known = -1;
    static bool asking; /* that is NumPy's to answer */
    if (known < 0 && !asking) {
        PyObject *module = PyImport_ImportModule("numpy"), *one = NULL;
        npa_suspended++, asking = true;
        one = module != NULL ? PyObject_CallMethod(module, "count_nonzero", "O", a) : NULL;
        npa_suspended--, asking = false;
        known = one != NULL ? PyLong_CheckExact(one) : -1;
        Py_XDECREF(module), Py_XDECREF(one);
    }
    return known;
}

PyObject *npa_as_count(PyObject *integer)
{
    npy_intp count = PyNumber_AsSsize_t(integer, NULL), none = 0;
    PyObject *plain = PyArray_SimpleNew(1, &none, NPY_BOOL);
    int python = plain != NULL ? counts_in_python(plain) : -1;
    Py_XDECREF(plain);
    return python < 0 ? NULL : python ? PyLong_FromSsize_t(count)
                                      : PyArray_Scalar(&count, npa_small_dtype(NPY_INTP), NULL);
}

/* count_nonzero(a) */
PyObject *npa_small_count(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    if (n != 1 || names != NULL || !npa_small_usual(args[0])) {
        return NULL;
    }
    int python = counts_in_python(args[0]);
    npy_intp size = PyArray_SIZE(a), count = 0;
    switch (python < 0 ? NPY_OBJECT : PyArray_TYPE(a)) {
    case NPY_BOOL: count = npa_count_true(PyArray_DATA(a), size); break;
#define COUNT(name, type)                                                                         \
    case name:                                                                                    \
        for (npy_intp i = 0; i < size; i++) {                                                     \
            count += ((const type *)PyArray_DATA(a))[i] != 0;                                     \
        }                                                                                         \
        break
    COUNT(NPY_LONG, npy_long);
    COUNT(NPY_INT, npy_int);
    COUNT(NPY_DOUBLE, npy_double);
    COUNT(NPY_FLOAT, npy_float);
    default: return NULL;
    }
    return python ? PyLong_FromSsize_t(count)
                  : PyArray_Scalar(&count, npa_small_dtype(NPY_INTP), NULL);
}

/* The greatest of them; -1: one is negative */
NPA_EACH_PROCESSOR static npy_long greatest(const npy_long *at, npy_intp n)
{
    npy_long most = 0, signs = 0;
    for (npy_intp i = 0; i < n; i++) {
        most = at[i] > most ? at[i] : most;
        signs |= at[i];
    }
    return signs < 0 ? -1 : most;
}

/* Doubles of as many elements, one behind the other */
static const double *weights_of(PyObject *o, npy_intp n)
{
    PyArrayObject *w = (PyArrayObject *)o;
    return npa_small_usual(o) && PyArray_NDIM(w) == 1 && PyArray_TYPE(w) == NPY_DOUBLE &&
                   PyArray_DIM(w, 0) == n
               ? PyArray_DATA(w)
               : NULL;
}

/* bincount(x, weights=None, minlength=0) */
PyObject *npa_small_bincount(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names)
{
    (void)f;
    static const char *const known[] = {"x", "weights", "minlength"};
    PyArrayObject *a = (PyArrayObject *)args[0];
    PyObject *given[3] = {NULL, Py_None, NULL};
    if (!npa_read_call(args, n, names, known, 3, given) || !npa_small_usual(args[0]) ||
        PyArray_NDIM(a) != 1 || PyArray_TYPE(a) != NPY_LONG ||
        (given[2] != NULL && !PyLong_CheckExact(given[2]))) {
        return NULL;
    }
    int overflow = 0;
    const npy_long *at = PyArray_DATA(a);
    npy_intp size = PyArray_DIM(a, 0), most = Py_MIN(greatest(at, size), NPA_SMALL_MOST);
    long bins = given[2] != NULL ? PyLong_AsLongAndOverflow(given[2], &overflow) : 0;
    const double *weights = given[1] != Py_None ? weights_of(given[1], size) : NULL;
    npy_intp shape = bins > most ? bins : most + 1;
    if (most < 0 || overflow || bins < 0 || (given[1] != Py_None && weights == NULL) ||
        shape >= NPA_SMALL_MOST || npa_small_is_large((size_t)shape * sizeof(double))) {
        return NULL;
    }
    PyArrayObject *made =
        npa_small_new(npa_small_dtype(weights != NULL ? NPY_DOUBLE : NPY_LONG), 1, &shape);
    if (made == NULL) {
        return NULL;
    }
    memset(PyArray_DATA(made), 0, (size_t)PyArray_NBYTES(made));
    double *sums = PyArray_DATA(made);
    npy_long *counts = PyArray_DATA(made);
    for (npy_intp i = 0; weights != NULL && i < size; i++) {
        sums[at[i]] += weights[i];
    }
    for (npy_intp i = 0; weights == NULL && i < size; i++) {
        counts[at[i]]++;
    }
    return (PyObject *)made;
}
