/* few.c: subscripts, and `take` with arrays, that concern few elements; NumPy has them before they
 * are recorded. */
#include "record/record.h"

#include <numpy/arrayscalars.h>

enum { MOST_ITEMS = 256 };

bool npa_is_index(PyObject *o)
{
    return PyLong_CheckExact(o) || Py_IS_TYPE(o, &PyLongArrType_Type);
}

bool npa_take_index(PyObject *o, Py_ssize_t *value)
{
    if (!PyLong_CheckExact(o)) {
        *value = PyArrayScalar_VAL(o, Long);
        return true;
    }
    *value = PyLong_AsSsize_t(o);
    return *value != -1 || !PyErr_Occurred() || (PyErr_Clear(), false);
}

/* A bound of a slice: nothing, or an integer. *value stays where there is none. */
static inline bool take_bound(PyObject *o, Py_ssize_t *value)
{
    return o == Py_None || (npa_is_index(o) && npa_take_index(o, value));
}

Py_ssize_t npa_slice_length(PyObject *slice, npy_intp extent, Py_ssize_t *start, Py_ssize_t *step)
{
    PySliceObject *s = (PySliceObject *)slice;
    *step = 1;
    if (!take_bound(s->step, step) || *step == 0 || *step == PY_SSIZE_T_MIN) {
        return -1;
    }
    Py_ssize_t stop = *step < 0 ? PY_SSIZE_T_MIN : PY_SSIZE_T_MAX;
    *start = *step < 0 ? PY_SSIZE_T_MAX : 0;
    if (!take_bound(s->start, start) || !take_bound(s->stop, &stop)) {
        return -1;
    }
    return PySlice_AdjustIndices(extent, start, &stop, *step);
}

/* How many bytes a view that integers and slices name shows; SIZE_MAX: other parts in the key. */
size_t npa_view_bytes(PyArrayObject *a, PyObject *key)
{
    size_t bytes = (size_t)PyArray_ITEMSIZE(a);
    bool tuple = PyTuple_CheckExact(key);
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(key) : 1, i = 0;
    int ndim = PyArray_NDIM(a);
    for (; i < n && i < ndim; i++) {
        PyObject *part = tuple ? PyTuple_GET_ITEM(key, i) : key;
        if (PySlice_Check(part)) {
            Py_ssize_t start, step;
            Py_ssize_t length = npa_slice_length(part, PyArray_DIM(a, i), &start, &step);
            if (length < 0) {
                return SIZE_MAX;
            }
            bytes *= (size_t)length;
        } else if (!PyLong_CheckExact(part) && !PyArray_IsScalar(part, Integer)) {
            return SIZE_MAX;
        }
    }
    for (; i < ndim; i++) {
        bytes *= (size_t)PyArray_DIM(a, i);
    }
    return n <= ndim ? bytes : SIZE_MAX;
}

/* How many indices a list of plain integers holds; -1: something else, or many. */
static Py_ssize_t listed(PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    for (Py_ssize_t i = 0; i < n && i <= MOST_ITEMS; i++) {
        if (!PyLong_CheckExact(PyList_GET_ITEM(list, i))) {
            return -1;
        }
    }
    return n <= MOST_ITEMS ? n : -1;
}

/* How many places known indices name, and how many axes they stand for; -1: not known at once. */
static Py_ssize_t named(PyArrayObject *indices, int *axes)
{
    *axes = 1;
    if (npa_is_pending(indices)) {
        return -1;
    }
    if (PyArray_ISINTEGER(indices)) {
        return PyArray_SIZE(indices);
    }
    *axes = PyArray_NDIM(indices);
    if (!PyArray_ISBOOL(indices) || *axes == 0 ||
        (size_t)PyArray_NBYTES(indices) >= npa_ours_here()) {
        return -1;
    }
    return PyArray_CountNonzero(indices);
}

/* Along n axes from one on. */
static double elements(PyArrayObject *a, int axis, int n)
{
    double count = 1;
    for (int i = axis; i < axis + n; i++) {
        count *= (double)PyArray_DIM(a, i);
    }
    return count;
}

/* The axes that an ellipsis stands for. */
static int axes_left_over(PyArrayObject *a, PyObject *key)
{
    int left = PyArray_NDIM(a);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
        PyObject *part = PyTuple_GET_ITEM(key, i);
        bool mask = PyArray_Check(part) && PyArray_ISBOOL((PyArrayObject *)part);
        bool none = part == Py_None || part == Py_Ellipsis;
        left -= none ? 0 : mask ? PyArray_NDIM((PyArrayObject *)part) : 1;
    }
    return left;
}

/* The most bytes that a key with known integers and masks can pick; -1: other parts in it. */
static double picked_bytes(PyArrayObject *a, PyObject *key)
{
    double bytes = (double)PyArray_ITEMSIZE(a), indices = 1, largest = 0;
    bool tuple = PyTuple_CheckExact(key), alike = true;
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(key) : 1;
    int axis = 0, arrays = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *part = tuple ? PyTuple_GET_ITEM(key, i) : key;
        if (part == Py_None) {
            continue;
        }
        int whole = PySlice_Check(part) ? 1
                    : part == Py_Ellipsis && tuple ? axes_left_over(a, key) : -1;
        if (axis + (whole < 0 ? 1 : whole) > PyArray_NDIM(a)) {
            return -1;
        }
        if (whole >= 0) {
            bytes *= elements(a, axis, whole), axis += whole;
        } else if (PyArray_Check(part) || PyList_CheckExact(part)) {
            int axes = 1;
            bool line = PyList_CheckExact(part);
            Py_ssize_t size = line ? listed(part) : named((PyArrayObject *)part, &axes);
            if (size < 0) {
                return -1;
            }
            line |= PyArray_Check(part) && (PyArray_NDIM((PyArrayObject *)part) == 1 ||
                                            PyArray_ISBOOL((PyArrayObject *)part));
            alike &= line && (arrays == 0 || (double)size == largest);
            largest = (double)size, indices *= (double)size, arrays++, axis += axes;
        } else if (PyLong_CheckExact(part) || PyArray_IsScalar(part, Integer)) {
            axis++;
        } else {
            return -1;
        }
    }
    bytes *= elements(a, axis, PyArray_NDIM(a) - axis);
    return arrays == 0 ? -1 : bytes * (alike ? largest : indices);
}

/* Whether indices along the first axis pick rows whose elements lie side by side, which are copied
 * as a whole (as in dispatch/gather.py). */
static bool picks_rows(PyArrayObject *a, PyObject *key)
{
    int last = PyArray_NDIM(a) - 1;
    return last > 0 && PyArray_DIM(a, last) > 1 && PyArray_STRIDE(a, last) == PyArray_ITEMSIZE(a) &&
           PyArray_Check(key) && PyArray_ISINTEGER((PyArrayObject *)key);
}

/* Whether `a[key]` concerns less than so many times the threshold, and nothing waits for `a`, which
 * lies on no device. */
bool npa_is_few(PyArrayObject *a, PyObject *key, int times)
{
    npa_buffer *b = npa_buffer_of(a);
    /* Sections look at all */
    if ((b != NULL && (b->index >= 0 || b->copy != NULL)) || npa_here != NULL) {
        return false;
    }
    double bytes = picked_bytes(a, key);
    times = times == NPA_FEW_READ && picks_rows(a, key) ? NPA_FEW_ROWS : times;
    return bytes >= 0 && bytes < (double)times * (double)npa_ours_here();
}

/* The same for `a.take(indices, axis=None, out=None, mode="raise")`. */
bool npa_takes_few(PyArrayObject *a, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const words[] = {"indices", "axis", "out", "mode"};
    PyObject *given[4] = {NULL, Py_None, Py_None};
    if (!npa_read_call(args, n, names, words, 4, given) || given[2] != Py_None) {
        return false;
    }
    PyObject *axis = given[1];
    npa_buffer *b = npa_buffer_of(a);
    if (n < 1 || n > 2 || (b != NULL && (b->index >= 0 || b->copy != NULL)) || npa_here != NULL ||
        !(PyArray_Check(args[0]) || PyList_CheckExact(args[0]))) {
        return false;
    }
    int axes = 1, times = NPA_FEW_READ;
    double bytes = (double)PyArray_ITEMSIZE(a);
    bytes *= (double)(PyList_CheckExact(args[0]) ? listed(args[0])
                                                 : named((PyArrayObject *)args[0], &axes));
    if (axis != Py_None) {
        int overflow;
        long k = PyLong_CheckExact(axis) ? PyLong_AsLongAndOverflow(axis, &overflow) : NPY_MAXDIMS;
        k += k < 0 ? PyArray_NDIM(a) : 0;
        if (k < 0 || k >= PyArray_NDIM(a) || PyArray_DIM(a, k) == 0) {
            return false;
        }
        bytes *= (double)PyArray_SIZE(a) / (double)PyArray_DIM(a, k);
        times = k == 0 && picks_rows(a, args[0]) ? NPA_FEW_ROWS : times;
    } else if (!PyArray_IS_C_CONTIGUOUS(a)) {
        return false;
    }
    return bytes >= 0 && bytes < (double)times * (double)npa_ours_here();
}

/* Whether a trial leaves `a[key]`, which would be recorded, to NumPy. */
bool npa_pick_passes(PyArrayObject *a, PyObject *key)
{
    size_t most = (size_t)PyArray_NBYTES(a);
    bool tuple = PyTuple_CheckExact(key), waits = npa_waits(a);
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(key) : 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *part = tuple ? PyTuple_GET_ITEM(key, i) : key;
        if (PyArray_Check(part)) {
            size_t bytes = (size_t)PyArray_NBYTES((PyArrayObject *)part);
            most = bytes > most ? bytes : most;
            waits |= npa_waits((PyArrayObject *)part);
        }
    }
    enum { SHORT = 64 }; /* bytes of rows that NumPy moves one by one */
    npy_intp rows = PyArray_NDIM(a) > 1 ? PyArray_DIM(a, 0) : 0,
             row = rows > 0 ? PyArray_NBYTES(a) / rows : SHORT;
    return npa_autotune_on && npa_in_block() && row >= SHORT &&
           npa_autotune_passes_call(npa_hook_getitem, most, !waits);
}
