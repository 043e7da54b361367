/* small_sorted.c: few elements sorted, looked up, found or repeated, by NumPy's C functions without
 * the Python around them. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

/* Elements; of more, what NumPy's code around it takes is little. */
enum { MOST = NPA_LEAST_SORTED - 1, MOST_TIMES = 64 };

static bool is_few(PyObject *o)
{
    return npa_small_usual(o) && PyArray_SIZE((PyArrayObject *)o) <= MOST;
}

/* What a call says about an array and an axis, the last one if none is given; -1: more than that,
 * or not of few elements */
static int axis_of(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (!is_few(args[0]) ||
        (names != NULL && (n > 1 || PyTuple_GET_SIZE(names) != 1 ||
                           PyTuple_GET_ITEM(names, 0) != npa_small_words[AXIS]))) {
        return -1;
    }
    int ndim = PyArray_NDIM((PyArrayObject *)args[0]), axis = ndim - 1;
    bool given = n > 1 || names != NULL;
    return n <= 2 && (!given || npa_small_axis(args[1], ndim, &axis)) ? axis : -1;
}

/* sort(a, axis=-1) */
PyObject *npa_small_sort(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int axis = axis_of(args, n, names);
    PyObject *made = axis >= 0 ? npa_small_copy(f, args, 1, NULL) : NULL;
    if (made != NULL && PyArray_Sort((PyArrayObject *)made, axis, NPY_QUICKSORT) < 0) {
        Py_CLEAR(made);
    }
    return made;
}

/* argsort(a, axis=-1), a.argsort() */
PyObject *npa_small_argsort(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    int axis = axis_of(args, n, names);
    return axis >= 0 ? PyArray_ArgSort((PyArrayObject *)args[0], axis, NPY_QUICKSORT) : NULL;
}

/* searchsorted(a, v), a.searchsorted(v) of a number, or of numbers of the same type */
PyObject *npa_small_search(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    if (n != 2 || names != NULL || !is_few(args[0]) || PyArray_NDIM(a) != 1) {
        return NULL;
    }
    bool number = PyFloat_CheckExact(args[1]) || PyLong_CheckExact(args[1]);
    if (!number && !(npa_is_plain(args[1]) && is_few(args[1]) &&
                     PyArray_TYPE((PyArrayObject *)args[1]) == PyArray_TYPE(a))) {
        return NULL;
    }
    PyObject *found = PyArray_SearchSorted(a, args[1], NPY_SEARCHLEFT, NULL);
    return found != NULL ? PyArray_Return((PyArrayObject *)found) : NULL;
}

/* nonzero(a), a.nonzero() */
PyObject *npa_small_nonzero(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    return n == 1 && names == NULL && is_few(args[0])
               ? PyArray_Nonzero((PyArrayObject *)args[0])
               : NULL;
}

/* repeat(a, times) */
PyObject *npa_small_repeat(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    int overflow = 0;
    long times = n == 2 && names == NULL && PyLong_CheckExact(args[1])
                     ? PyLong_AsLongAndOverflow(args[1], &overflow) : -1;
    return !overflow && times > 0 && times <= MOST_TIMES && is_few(args[0]) &&
                   !npa_small_is_large((size_t)(PyArray_NBYTES((PyArrayObject *)args[0]) * times))
               ? PyArray_Repeat((PyArrayObject *)args[0], args[1], NPY_RAVEL_AXIS)
               : NULL;
}
