/* small_quantiles.c: medians, percentiles and quantiles, parts in order, and convolutions of few
 * numbers, without the Python around NumPy's loops. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <numpy/arrayscalars.h>

#include <math.h>

/* Elements that are taken at all; of which all are sorted, while of more those that are asked for
 * come to their places; quantiles that are asked for. */
enum { MOST = 1024, SORTED = 256, MOST_ASKED = 32 };

/* Which of few doubles; `part`: of how many one number says. -1: NumPy reads it */
static int read_asked(PyObject *q, double part, double *asked)
{
    PyObject *const *of = &q;
    int n = 1;
    if (npa_is_listed(q)) {
        of = PySequence_Fast_ITEMS(q);
        n = PySequence_Fast_GET_SIZE(q) <= MOST_ASKED ? (int)PySequence_Fast_GET_SIZE(q) : 0;
    }
    for (int k = 0; k < n; k++) {
        bool whole = part != 1 && PyLong_CheckExact(of[k]); /* else it may be an index */
        double value = PyFloat_CheckExact(of[k]) ? PyFloat_AS_DOUBLE(of[k])
                       : whole                   ? PyLong_AsDouble(of[k])
                                                 : -1;
        if (!(value >= 0 && value <= part)) { /* or too large for a double */
            PyErr_Clear();
            return -1;
        }
        asked[k] = value / part;
    }
    return n > 0 ? n : -1;
}

/* NumPy's: between neighbours, from the nearer one on. False: which zero, or what it warns of, is
 * for NumPy to say. */
static bool interpolate(const double *sorted, npy_intp n, double q, double *value)
{
    double at = (double)(n - 1) * q, before = floor(at);
    bool last = at >= (double)(n - 1);
    double a = sorted[last ? n - 1 : (npy_intp)before];
    double b = sorted[last ? n - 1 : (npy_intp)before + 1];
    double t = last ? 0 : at - before, more = b - a;
    *value = t >= 0.5 ? b - more * (1 - t) : a + more * t;
    return a != 0 && b != 0 && *value != 0 && isfinite(a) && isfinite(b);
}

/* So many places, and the last one, which has a NaN if there is one, have what a sorted array has
 * there. */
static bool put_in_place(PyArrayObject *a, const npy_intp *places, npy_intp n)
{
    npy_intp shape = n + 1;
    PyObject *kth = PyArray_SimpleNew(1, &shape, NPY_INTP);
    npy_intp *at = kth != NULL ? PyArray_DATA((PyArrayObject *)kth) : NULL;
    if (kth != NULL) {
        memcpy(at, places, (size_t)n * sizeof *at);
        at[n] = PyArray_SIZE(a) - 1;
    }
    bool good = kth != NULL && PyArray_Partition(a, (PyArrayObject *)kth, 0, NPY_INTROSELECT) == 0;
    Py_XDECREF(kth);
    return good;
}

/* Doubles in order, as far as these places go. NULL, perhaps without error: there is a NaN, or they
 * are others. */
static PyArrayObject *in_order(PyObject *const *args, const npy_intp *places, npy_intp n)
{
    const function flat = {.what = FLAT};
    npy_intp size = PyArray_SIZE((PyArrayObject *)args[0]);
    PyArrayObject *sorted = npa_small_doubles(args[0])
                                ? (PyArrayObject *)npa_small_copy(&flat, args, 1, NULL)
                                : NULL;
    if (sorted != NULL &&
        (!(size <= SORTED ? PyArray_Sort(sorted, 0, NPY_QUICKSORT) == 0
                        : put_in_place(sorted, places, n)) ||
         isnan(((const double *)PyArray_DATA(sorted))[size - 1]))) {
        Py_CLEAR(sorted);
    }
    return sorted;
}

/* median(a): the mean of what is in the middle. Which zero it is hangs on how NumPy adds. */
PyObject *npa_small_median(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    npy_intp half = PyArray_SIZE((PyArrayObject *)args[0]) / 2,
             places[] = {half - (half > 0), half};
    PyArrayObject *sorted = n == 1 && names == NULL ? in_order(args, places, 2) : NULL;
    if (sorted == NULL) {
        return NULL;
    }
    const double *v = PyArray_DATA(sorted);
    npy_intp size = PyArray_SIZE(sorted);
    npa_clear_errors();
    double middle = size % 2 ? v[size / 2] : (v[size / 2 - 1] + v[size / 2]) / 2;
    bool good = middle != 0 && !npa_seen_errors();
    Py_DECREF(sorted);
    return good ? PyArray_Scalar(&middle, npa_small_dtype(NPY_DOUBLE), NULL) : NULL;
}

/* percentile(a, q), quantile(a, q) */
PyObject *npa_small_quantile(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names)
{
    double asked[MOST_ASKED], found[MOST_ASKED];
    double part = f->what == PERCENTILE ? 100 : 1;
    int count = n == 2 && names == NULL ? read_asked(args[1], part, asked) : -1;
    npy_intp last = PyArray_SIZE((PyArrayObject *)args[0]) - 1, places[2 * MOST_ASKED];
    for (int k = 0; k < count; k++) {
        npy_intp before = (npy_intp)((double)last * asked[k]);
        places[2 * k] = before, places[2 * k + 1] = before < last ? before + 1 : last;
    }
    PyArrayObject *sorted = count > 0 ? in_order(args, places, 2 * count) : NULL;
    if (sorted == NULL) {
        return NULL;
    }
    bool good = true;
    npa_clear_errors();
    for (int k = 0; good && k < count; k++) {
        good = interpolate(PyArray_DATA(sorted), PyArray_SIZE(sorted), asked[k], &found[k]);
    }
    good = good && !npa_seen_errors();
    Py_DECREF(sorted);
    if (!good) {
        return NULL;
    }
    if (!PyList_CheckExact(args[1]) && !PyTuple_CheckExact(args[1])) {
        return PyArray_Scalar(found, npa_small_dtype(NPY_DOUBLE), NULL);
    }
    npy_intp shape = count;
    PyArrayObject *made = npa_small_new(npa_small_dtype(NPY_DOUBLE), 1, &shape);
    if (made != NULL) {
        memcpy(PyArray_DATA(made), found, (size_t)count * sizeof *found);
    }
    return (PyObject *)made;
}

/* partition(a, k) along the last axis */
PyObject *npa_small_partition(const function *f, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    int kth;
    if (n != 2 || names != NULL || !npa_small_usual(args[0]) || PyArray_SIZE(a) > MOST ||
        !npa_small_axis(args[1], (int)PyArray_DIM(a, PyArray_NDIM(a) - 1), &kth)) {
        return NULL;
    }
    PyObject *made = npa_small_copy(f, args, 1, NULL);
    PyObject *place = made == NULL ? NULL : PyArray_FROM_O(args[1]);
    if (place == NULL || PyArray_Partition((PyArrayObject *)made, (PyArrayObject *)place, -1,
                                           NPY_INTROSELECT) < 0) {
        Py_CLEAR(made);
    }
    Py_XDECREF(place);
    return made;
}

/* convolve's mode; -1: NumPy's to read */
static int mode_of(PyObject *name)
{
    static const char *const names[] = {"valid", "same", "full"};
    int mode = PyUnicode_CheckExact(name) ? 2 : -1;
    while (mode >= 0 && PyUnicode_CompareWithASCIIString(name, names[mode]) != 0) {
        mode--;
    }
    return mode;
}

/* convolve(a, v, mode) of doubles */
PyObject *npa_small_convolve(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names)
{
    static const char *const known[] = {"a", "v", "mode"};
    PyObject *given[3] = {NULL};
    (void)f;
    if (!npa_read_call(args, n, names, known, 3, given) || given[1] == NULL) {
        return NULL;
    }
    for (int k = 0; k < 2; k++) {
        PyArrayObject *x = (PyArrayObject *)given[k];
        if (!npa_small_doubles(given[k]) || PyArray_NDIM(x) != 1 || PyArray_SIZE(x) > MOST) {
            return NULL;
        }
    }
    int mode = given[2] != NULL ? mode_of(given[2]) : 2;
    if (mode < 0) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)given[0], *v = (PyArrayObject *)given[1];
    if (PyArray_DIM(v, 0) > PyArray_DIM(a, 0)) {
        PyArrayObject *longer = v;
        v = a, a = longer;
    }
    npy_intp length = PyArray_DIM(v, 0);
    npa_basic_part back = {.ndim = 1,
                           .data = (char *)PyArray_DATA(v) + (length - 1) * PyArray_STRIDE(v, 0),
                           .shape = {length},
                           .strides = {-PyArray_STRIDE(v, 0)}};
    PyObject *reversed = npa_part_view(v, &back, false);
    PyObject *made =
        reversed != NULL ? PyArray_Correlate((PyObject *)a, reversed, mode) : NULL;
    Py_XDECREF(reversed);
    return made;
}
