/* small_views.c: parts of plain arrays by slices, and small values assigned to them, without what NumPy
 * does around them. See Note [Small] in small.c. */
#include "small.h"

#include <numpy/arrayscalars.h>

#include <string.h>

enum { MOST_DIMS = NPA_SMALL_DIMS, MOST_SHELLS = 32 };

typedef struct {
    int ndim;
    char *data;
    npy_intp shape[MOST_DIMS], strides[MOST_DIMS];
} part;

/* -------------------------------------------------------------------------- what a key picks */

static bool take_slice(part *p, PyObject *key, npy_intp extent, npy_intp stride)
{
    PySliceObject *s = (PySliceObject *)key;
    PyObject *const bounds[] = {s->start, s->stop, s->step};
    Py_ssize_t start, stop, step;
    for (int i = 0; i < 3; i++) {
        if (bounds[i] != Py_None && !PyLong_CheckExact(bounds[i])) {
            return false; /* which may run code */
        }
    }
    if (PySlice_Unpack(key, &start, &stop, &step) < 0) {
        PyErr_Clear(); /* NumPy's to raise */
        return false;
    }
    Py_ssize_t length = PySlice_AdjustIndices(extent, &start, &stop, step);
    p->data += start * stride;
    p->shape[p->ndim] = length, p->strides[p->ndim++] = stride * step;
    return length > 0;
}

static bool take_integer(part *p, PyObject *key, npy_intp extent, npy_intp stride)
{
    Py_ssize_t i;
    if (PyLong_CheckExact(key)) {
        i = PyLong_AsSsize_t(key);
        if (i == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
    } else if (PyArray_IsScalar(key, Long)) {
        i = PyArrayScalar_VAL(key, Long);
    } else {
        return false;
    }
    i += i < 0 ? extent : 0;
    p->data += i * stride;
    return i >= 0 && i < extent;
}

/* The part of an array that a basic key picks. False: no such key, no such part, or one without elements
 * or axes. */
static bool find_part(PyArrayObject *a, PyObject *key, part *p)
{
    PyObject *const *items = &key;
    Py_ssize_t n = 1, named = 0;
    if (PyTuple_CheckExact(key)) {
        items = &PyTuple_GET_ITEM(key, 0), n = PyTuple_GET_SIZE(key);
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        named += items[k] != Py_None && items[k] != Py_Ellipsis;
    }
    int ndim = PyArray_NDIM(a), axis = 0;
    if (named > ndim || ndim + n - named > MOST_DIMS || PyArray_SIZE(a) == 0) {
        return false;
    }
    p->ndim = 0, p->data = PyArray_DATA(a);
    bool rest = false; /* the axes that nothing names follow the keys, or stand where `...` does */
    for (Py_ssize_t k = 0; k <= n; k++) {
        PyObject *item = k < n ? items[k] : Py_Ellipsis;
        if (item == Py_Ellipsis) {
            for (Py_ssize_t left = rest ? 0 : ndim - named; left > 0; left--, axis++) {
                p->shape[p->ndim] = PyArray_DIM(a, axis), p->strides[p->ndim++] = PyArray_STRIDE(a, axis);
            }
            if (k < n && rest) {
                return false; /* twice */
            }
            rest = true;
        } else if (item == Py_None) {
            p->shape[p->ndim] = 1, p->strides[p->ndim++] = 0;
        } else if (PySlice_Check(item)) {
            if (!take_slice(p, item, PyArray_DIM(a, axis), PyArray_STRIDE(a, axis))) {
                return false;
            }
            axis++;
        } else if (!take_integer(p, item, PyArray_DIM(a, axis), PyArray_STRIDE(a, axis))) {
            return false;
        } else {
            axis++;
        }
    }
    return p->ndim > 0;
}

/* ------------------------------------------------------------------------------------ elements */

/* Where an integer per axis leads, of one or two. NULL: no such key, or no such element. */
static inline char *find_element(PyArrayObject *a, PyObject *key)
{
    part p = {.data = PyArray_DATA(a)};
    if (PyArray_NDIM(a) == 1) {
        return !PyTuple_Check(key) && take_integer(&p, key, PyArray_DIM(a, 0), PyArray_STRIDE(a, 0)) ? p.data : NULL;
    }
    return PyArray_NDIM(a) == 2 && PyTuple_CheckExact(key) && PyTuple_GET_SIZE(key) == 2 &&
                   take_integer(&p, PyTuple_GET_ITEM(key, 0), PyArray_DIM(a, 0), PyArray_STRIDE(a, 0)) &&
                   take_integer(&p, PyTuple_GET_ITEM(key, 1), PyArray_DIM(a, 1), PyArray_STRIDE(a, 1))
               ? p.data : NULL;
}

PyObject *npa_small_element(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o;
    char *at = PyArray_ISALIGNED(a) && npa_small_type(PyArray_DESCR(a)) ? find_element(a, key) : NULL;
    if (at == NULL) {
        return NULL;
    }
    PyObject *made;
#define SCALAR(name, type)                                                                        \
    made = Py##name##ArrType_Type.tp_alloc(&Py##name##ArrType_Type, 0);                           \
    if (made != NULL) {                                                                           \
        PyArrayScalar_ASSIGN(made, name, *(type *)at);                                            \
    }                                                                                             \
    return made
    switch (PyArray_TYPE(a)) {
    case NPY_DOUBLE: SCALAR(Double, double);
    case NPY_FLOAT: SCALAR(Float, float);
    case NPY_LONG: SCALAR(Long, long);
    case NPY_INT: SCALAR(Int, int);
    default: return PyArray_Scalar(at, PyArray_DESCR(a), o);
    }
}

bool npa_small_put_element(PyObject *o, PyObject *key, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)o;
    int type = PyArray_TYPE(a);
    double d;
    long i = 0;
    if ((PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE | NPY_ARRAY_ALIGNED)) !=
            (NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED) ||
        !npa_small_type(PyArray_DESCR(a))) {
        return false;
    }
    if (type == NPY_DOUBLE) {
        if (PyFloat_CheckExact(value) || PyArray_IsScalar(value, Double)) {
            d = PyFloat_AS_DOUBLE(value);
        } else if (!npa_take_scalar(value, NPY_DOUBLE, &d)) {
            return false;
        }
    } else if ((type == NPY_LONG || type == NPY_INT) && PyLong_CheckExact(value)) {
        int overflow;
        i = PyLong_AsLongAndOverflow(value, &overflow);
        if (overflow || (type == NPY_INT && i != (int)i)) {
            return false;
        }
    } else if (type == NPY_LONG && PyArray_IsScalar(value, Long)) {
        i = PyArrayScalar_VAL(value, Long);
    } else if (type == NPY_INT && PyArray_IsScalar(value, Int)) {
        i = PyArrayScalar_VAL(value, Int);
    } else if (type == NPY_BOOL && PyBool_Check(value)) {
        i = value == Py_True;
    } else {
        return false;
    }
    char *at = find_element(a, key);
    if (at == NULL) {
        return false;
    }
    switch (type) {
    case NPY_DOUBLE: *(double *)at = d; break;
    case NPY_LONG: *(long *)at = i; break;
    case NPY_INT: *(int *)at = (int)i; break;
    default: *(npy_bool *)at = (npy_bool)i;
    }
    return true;
}

/* ------------------------------------------------------------------------------------- reading */

static PyArrayObject *shells[MOST_DIMS + 1][MOST_SHELLS]; /* dead views, by their number of axes */
static int nshells[MOST_DIMS + 1];

bool npa_small_view_died(PyObject *o)
{
    PyArrayObject_fields *f = (PyArrayObject_fields *)o;
    PyObject *base = f->base;
    if (base == NULL || !Py_IS_TYPE(base, &PyArray_Type) || f->nd < 1 || f->nd > MOST_DIMS ||
        f->flags & (NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEBACKIFCOPY) || f->weakreflist != NULL ||
        f->_buffer_info != NULL || f->mem_handler != NULL || nshells[f->nd] == MOST_SHELLS) {
        return false;
    }
    shells[f->nd][nshells[f->nd]++] = (PyArrayObject *)o;
    f->base = NULL;
    Py_DECREF(f->descr);
    Py_DECREF(base);
    return true;
}

void npa_small_views_end(destructor numpy_dealloc)
{
    for (int ndim = 1; ndim <= MOST_DIMS; ndim++) {
        while (nshells[ndim] > 0) {
            PyArrayObject_fields *f = (PyArrayObject_fields *)shells[ndim][--nshells[ndim]];
            f->descr = PyArray_DescrFromType(NPY_BOOL); /* its own may be gone */
            numpy_dealloc((PyObject *)f);
        }
    }
}

PyObject *npa_small_view(PyArrayObject *a, int ndim, const npy_intp *shape, const npy_intp *strides, char *data)
{
    PyArray_Descr *descr = PyArray_DESCR(a);
    PyArrayObject *view;
    if (PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) {
        return NULL;
    }
    Py_INCREF(descr);
    if (nshells[ndim] > 0) {
        view = shells[ndim][--nshells[ndim]];
        PyArrayObject_fields *f = (PyArrayObject_fields *)view;
        memcpy(f->dimensions, shape, sizeof *shape * (size_t)ndim);
        memcpy(f->strides, strides, sizeof *strides * (size_t)ndim);
        f->data = data, f->descr = descr, f->flags = PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE;
        PyArray_UpdateFlags(view, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
        _Py_NewReference((PyObject *)view);
    } else {
        view = (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides, data,
                                                     PyArray_FLAGS(a), NULL);
        if (view == NULL) {
            return NULL;
        }
    }
    if (PyArray_SetBaseObject(view, Py_NewRef((PyObject *)a)) < 0) {
        Py_CLEAR(view);
    }
    return (PyObject *)view;
}

PyObject *npa_small_get(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o;
    part p;
    if (Py_IS_TYPE(key, &PyArray_Type)) {
        return npa_small_pick(o, key);
    }
    return !find_part(a, key, &p)
               ? NULL : npa_small_view(a, p.ndim, p.shape, p.strides, p.data);
}

/* ------------------------------------------------------------------------------------- writing */

/* Neighbouring axes of both become one where they can. */
static void merge(part *to, npy_intp *from)
{
    int out = 0;
    for (int i = 1; i < to->ndim; i++) {
        npy_intp extent = to->shape[i];
        if (extent == 1) {
            continue;
        }
        if (to->shape[out] == 1 || (to->strides[out] == to->strides[i] * extent && from[out] == from[i] * extent)) {
            to->shape[out] *= extent;
        } else {
            to->shape[++out] = extent;
        }
        to->strides[out] = to->strides[i], from[out] = from[i];
    }
    to->ndim = out + 1;
}

/* Elements of one place after the other; `from` moves by these steps along the axes of `to`. */
static void copy(part *to, const char *from, npy_intp *steps, int size)
{
    npy_intp index[MOST_DIMS] = {0};
    merge(to, steps);
    int last = to->ndim - 1;
    for (char *p = to->data;;) {
        if (to->strides[last] == size) {
            npa_pack(p, from, steps[last], to->shape[last], size);
        } else {
            npa_move(p, to->strides[last], from, steps[last], to->shape[last], size);
        }
        int i = last - 1;
        for (; i >= 0; i--) {
            p += to->strides[i], from += steps[i];
            if (++index[i] < to->shape[i]) {
                break;
            }
            p -= to->strides[i] * to->shape[i], from -= steps[i] * to->shape[i];
            index[i] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

static void extent_of(const part *p, const npy_intp *strides, const char *data, int size, const char **low,
                      const char **high)
{
    *low = data, *high = data + size;
    for (int i = 0; i < p->ndim; i++) {
        npy_intp span = strides[i] * (p->shape[i] - 1);
        *low += span < 0 ? span : 0, *high += span > 0 ? span : 0;
    }
}

bool npa_small_put(PyObject *o, PyObject *key, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)o;
    part to;
    npy_intp steps[MOST_DIMS] = {0};
    char number[16] __attribute__((aligned(16)));
    const char *from = number, *low[2], *high[2];
    int type = PyArray_TYPE(a), size = (int)PyArray_ITEMSIZE(a);
    if (Py_IS_TYPE(key, &PyArray_Type)) {
        return npa_small_put_picked(o, key, value);
    }
    if (!npa_small_type(PyArray_DESCR(a)) || !PyArray_ISALIGNED(a) ||
        (PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) != NPY_ARRAY_WRITEABLE ||
        !find_part(a, key, &to)) {
        return false;
    }
    npy_intp bytes = size;
    for (int i = 0; i < to.ndim; i++) {
        bytes *= to.shape[i];
    }
    if ((size_t)bytes >= npa_least) {
        return false;
    }
    if (!Py_IS_TYPE(value, &PyArray_Type)) {
        if (!npa_take_scalar(value, type, number)) {
            return false;
        }
        copy(&to, from, steps, size);
        return true;
    }
    PyArrayObject *v = (PyArrayObject *)value;
    int lead = to.ndim - PyArray_NDIM(v);
    if (PyArray_DESCR(v) != PyArray_DESCR(a) || lead < 0) {
        return false;
    }
    bool same = lead == 0 && PyArray_DATA(v) == to.data;
    for (int i = lead; i < to.ndim; i++) {
        npy_intp extent = PyArray_DIM(v, i - lead);
        if (extent != to.shape[i] && extent != 1) {
            return false;
        }
        steps[i] = extent != 1 ? PyArray_STRIDE(v, i - lead) : 0;
        same &= extent == to.shape[i] && (extent == 1 || steps[i] == to.strides[i]);
    }
    if (same) {
        return true; /* x[1:] += y has written it */
    }
    from = PyArray_DATA(v);
    extent_of(&to, to.strides, to.data, size, &low[0], &high[0]);
    extent_of(&to, steps, from, size, &low[1], &high[1]);
    if (low[0] < high[1] && low[1] < high[0]) {
        return false;
    }
    copy(&to, from, steps, size);
    return true;
}
