/* empty_like.c: broadcast_to; and what `empty` makes, and empty_like(a, dtype=..., shape=...), in
 * memory of ours, without Python in the usual case. NumPy's code around transforms calls that once
 * per axis. */
#include "functions/functions.h"

#include <string.h>

/* Sizes that are given as integers, none of them 0. -1: another way. */
static int read_shape(PyObject *shape, npy_intp *dims)
{
    bool several = npa_is_listed(shape);
    PyObject *const *sizes = several ? PySequence_Fast_ITEMS(shape) : &shape;
    Py_ssize_t n = several ? Py_SIZE(shape) : 1;
    if (n > NPA_MAX_DIMS) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *size = sizes[i];
        bool whole = PyLong_CheckExact(size) || PyArray_IsScalar(size, Integer);
        dims[i] = whole ? PyNumber_AsSsize_t(size, NULL) : -1; /* cut off where it is too large */
        if (dims[i] <= 0) {
            return -1;
        }
    }
    return (int)n;
}

/* As many bytes as deferring is worth, and as there can be. */
static bool is_of_a_size(const PyArray_Descr *d, int ndim, const npy_intp *dims)
{
    npy_intp bytes = PyDataType_ELSIZE(d);
    for (int i = 0; i < ndim; i++) {
        if (__builtin_mul_overflow(bytes, dims[i], &bytes)) {
            return false;
        }
    }
    return (size_t)bytes >= npa_threshold_here();
}

PyObject *npa_new_of_shape(PyArray_Descr *d, PyObject *shape)
{
    npy_intp dims[NPA_MAX_DIMS];
    int ndim = read_shape(shape, dims);
    return ndim < 0 || !is_of_a_size(d, ndim, dims) ? NULL : npa_new_in_order(d, ndim, dims, false);
}

PyObject *npa_record_empty_like(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    npa_value prototype;
    static const char *const words[] = {"", "dtype", "shape"};
    PyObject *given[3] = {NULL, Py_None, Py_None};
    if (n != 1 || !npa_read_call(args, n, names, words, 3, given)) {
        return NULL;
    }
    PyObject *dtype = given[1], *shape = given[2];
    if (!npa_classify(args[0], &prototype) || prototype.array == NULL ||
        !npa_wants(&prototype, 1) || PyArray_SIZE(prototype.array) == 0 ||
        (dtype != Py_None && !PyArray_DescrCheck(dtype))) {
        return NULL;
    }
    PyArrayObject *a = prototype.array;
    PyArray_Descr *d = dtype != Py_None ? (PyArray_Descr *)dtype : PyArray_DESCR(a);
    if (!npa_dtype_known(d)) {
        return NULL;
    }
    return shape == Py_None              ? npa_new_like(a, d)
           : PyArray_IS_C_CONTIGUOUS(a) ? npa_new_of_shape(d, shape)
                                         : NULL;
}

/* broadcast_to(a, shape), of an array of ours: a view, of a small one a plain one. */
PyObject *npa_broadcast(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = n == 2 ? (PyArrayObject *)args[0] : NULL;
    npy_intp dims[NPA_MAX_DIMS];
    int ndim = a != NULL ? read_shape(args[1], dims) : -1;
    if (ndim < 1 || ndim > NPA_SMALL_DIMS || names != NULL || npa_in_section() ||
        !Py_IS_TYPE(args[0], npa_array_type) || PyArray_NDIM(a) > ndim) {
        return NULL;
    }
    npa_basic_part p = {.ndim = ndim, .data = PyArray_DATA(a)};
    for (int i = 0, k = PyArray_NDIM(a) - ndim; i < ndim; i++, k++) {
        bool moves = k >= 0 && PyArray_DIM(a, k) != 1;
        if (moves && PyArray_DIM(a, k) != dims[i]) {
            return NULL;
        }
        p.shape[i] = dims[i], p.strides[i] = moves ? PyArray_STRIDE(a, k) : 0;
    }
    bool wanted = npa_wants(&(npa_value){.array = a}, 1);
    bool shown = wanted || npa_touch(a, false) == 0;
    PyObject *view = shown ? npa_part_view(a, &p, wanted) : NULL;
    if (view != NULL) {
        PyArray_CLEARFLAGS((PyArrayObject *)view, NPY_ARRAY_WRITEABLE);
    }
    return view;
}
