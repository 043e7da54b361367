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

/* The axis that a call of sort or argsort says, and how it sorts; -1: more than that, or not of few
 * elements */
static int axis_of(PyObject *const *args, Py_ssize_t n, PyObject *names, NPY_SORTKIND *kind)
{
    static const char *const words[] = {"a", "axis", "kind"};
    PyObject *given[3] = {NULL};
    if (!npa_read_call(args, n, names, words, 3, given) || !is_few(args[0])) {
        return -1;
    }
    PyObject *how = given[2];
    bool stable = how != NULL && (npa_is_text(how, "stable") || npa_is_text(how, "mergesort"));
    int ndim = PyArray_NDIM((PyArrayObject *)args[0]), axis = ndim - 1;
    *kind = stable ? NPY_STABLESORT : NPY_QUICKSORT;
    return (stable || how == NULL || how == Py_None || npa_is_text(how, "quicksort")) &&
           (given[1] == NULL || npa_small_axis(given[1], ndim, &axis)) ? axis : -1;
}

/* sort(a, axis=-1, kind=None) */
PyObject *npa_small_sort(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    NPY_SORTKIND kind;
    int axis = axis_of(args, n, names, &kind);
    PyObject *made = axis >= 0 ? npa_small_copy(f, args, 1, NULL) : NULL;
    if (made != NULL && PyArray_Sort((PyArrayObject *)made, axis, kind) < 0) {
        Py_CLEAR(made);
    }
    return made;
}

/* argsort(a, axis=-1, kind=None), a.argsort(...) */
PyObject *npa_small_argsort(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    NPY_SORTKIND kind;
    int axis = axis_of(args, n, names, &kind);
    return axis >= 0 ? PyArray_ArgSort((PyArrayObject *)args[0], axis, kind) : NULL;
}

/* searchsorted(a, v, side="left"), a.searchsorted(...) of a number, or of numbers of the same type
 */
PyObject *npa_small_search(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    static const char *const words[] = {"a", "v", "side"};
    PyObject *given[3] = {NULL};
    if (!npa_read_call(args, n, names, words, 3, given) || given[1] == NULL || !is_few(args[0]) ||
        PyArray_NDIM((PyArrayObject *)args[0]) != 1) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    PyObject *of = given[1];
    bool right = given[2] != NULL && npa_is_text(given[2], "right");
    bool number = PyFloat_CheckExact(of) || PyLong_CheckExact(of);
    if ((given[2] != NULL && !right && !npa_is_text(given[2], "left")) ||
        (!number && !(npa_is_plain(of) && is_few(of) &&
                      PyArray_TYPE((PyArrayObject *)of) == PyArray_TYPE(a)))) {
        return NULL;
    }
    PyObject *found = PyArray_SearchSorted(a, of, right ? NPY_SEARCHRIGHT : NPY_SEARCHLEFT, NULL);
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

/* repeat(a, times, axis=None) */
PyObject *npa_small_repeat(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    static const char *const words[] = {"a", "repeats", "axis"};
    PyObject *given[3] = {NULL};
    int overflow = 0, axis = NPY_RAVEL_AXIS;
    if (!npa_read_call(args, n, names, words, 3, given) || given[1] == NULL ||
        !is_few(args[0])) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    long times = PyLong_CheckExact(given[1]) ? PyLong_AsLongAndOverflow(given[1], &overflow) : -1;
    bool along = given[2] != NULL && given[2] != Py_None;
    return !overflow && times > 0 && times <= MOST_TIMES &&
                   !npa_small_is_large((size_t)(PyArray_NBYTES(a) * times)) &&
                   (!along || npa_small_axis(given[2], PyArray_NDIM(a), &axis))
               ? PyArray_Repeat(a, given[1], axis)
               : NULL;
}
