/* small_places.c: elements of a plain array at a few places, each told by an integer per axis, as
 * in `a[i, j]`, `a[3, j] = v` and `a[i] = v`; without what NumPy does around it. See Note [Small]
 * in small.c. */
#include "small/small.h"
#include "small/ways.h"

#include <string.h>

/* Where the places are: bytes from the array's first element. */
typedef struct {
    PyArrayObject *shape; /* the indices whose shape is the result's */
    npy_intp n, at[NPA_MOST_PLACES];
} places;

static bool is_index(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return Py_IS_TYPE(o, &PyArray_Type) && PyArray_TYPE(a) == NPY_INTP && PyArray_NDIM(a) > 0 &&
           PyArray_SIZE(a) <= NPA_MOST_PLACES && PyArray_SIZE(a) > 0 &&
           PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a) &&
           !npa_waits(a);
}

/* Whether all are in bounds; those below 0 count from the end. */
NPA_EACH_PROCESSOR static bool add_axis(npy_intp *at, const npy_intp *index, npy_intp n,
                                        npy_intp extent, npy_intp stride)
{
    npy_uintp outside = 0, last = (npy_uintp)extent - 1, step = (npy_uintp)stride;
    for (npy_intp i = 0; i < n; i++) {
        npy_uintp k = (npy_uintp)(index[i] + ((index[i] >> 63) & extent));
        outside |= k | (last - k); /* with the sign where it is */
        at[i] += (npy_intp)(k * step);
    }
    return (npy_intp)outside >= 0;
}

static bool add_number(places *p, PyObject *item, npy_intp extent, npy_intp stride)
{
    int overflow;
    npy_intp k = PyLong_AsLongAndOverflow(item, &overflow);
    k += k < 0 ? extent : 0;
    if (overflow || k < 0 || k >= extent) {
        return false;
    }
    for (npy_intp i = 0; i < p->n; i++) {
        p->at[i] += k * stride;
    }
    return true;
}

/* False: the key is another one, or some place is outside, and NumPy says which. */
static bool find_places(PyArrayObject *a, PyObject *key, places *p)
{
    PyObject *const *items = &key;
    int n = 1;
    if (PyTuple_CheckExact(key)) {
        items = &PyTuple_GET_ITEM(key, 0), n = (int)PyTuple_GET_SIZE(key);
    }
    p->shape = NULL;
    if (n != PyArray_NDIM(a) || n > NPA_SMALL_DIMS || !npa_small_type(PyArray_DESCR(a)) ||
        !PyArray_ISALIGNED(a)) {
        return false;
    }
    for (int k = 0; k < n; k++) {
        PyArrayObject *index = (PyArrayObject *)items[k];
        if (PyLong_CheckExact(items[k])) {
            continue;
        }
        if (!is_index(items[k]) || (p->shape != NULL && !PyArray_SAMESHAPE(index, p->shape))) {
            return false;
        }
        p->shape = index;
    }
    if (p->shape == NULL) {
        return false;
    }
    p->n = PyArray_SIZE(p->shape);
    memset(p->at, 0, sizeof *p->at * (size_t)p->n);
    for (int k = 0; k < n; k++) {
        npy_intp extent = PyArray_DIM(a, k), stride = PyArray_STRIDE(a, k);
        if (PyLong_CheckExact(items[k])
                ? !add_number(p, items[k], extent, stride)
                : !add_axis(p->at, PyArray_DATA((PyArrayObject *)items[k]), p->n, extent, stride)) {
            return false;
        }
    }
    return true;
}

#define PICK(T)                                                  \
    for (npy_intp i = 0; i < p->n; i++) {                        \
        memcpy(to + i * (npy_intp)sizeof(T), from + p->at[i], sizeof(T)); \
    }                                                            \
    break
#define PUT(T)                                          \
    for (npy_intp i = 0; i < p->n; i++) {               \
        memcpy(to + p->at[i], from + i * step, sizeof(T)); \
    }                                                   \
    break

static void pick(const places *p, const char *from, npy_intp size, char *to)
{
    switch (size) {
    case 1: PICK(uint8_t);
    case 2: PICK(uint16_t);
    case 4: PICK(uint32_t);
    case 8: PICK(uint64_t);
    default: PICK(npy_cdouble);
    }
}

/* In the order of the places, so that the last one of several that are the same stays. */
static void put(const places *p, char *to, npy_intp size, const char *from, npy_intp step)
{
    switch (size) {
    case 1: PUT(uint8_t);
    case 2: PUT(uint16_t);
    case 4: PUT(uint32_t);
    case 8: PUT(uint64_t);
    default: PUT(npy_cdouble);
    }
}

PyObject *npa_small_pick_places(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o;
    places p;
    PyArrayObject *made = find_places(a, key, &p)
                        ? npa_small_new(PyArray_DESCR(a), PyArray_NDIM(p.shape),
                                        PyArray_DIMS(p.shape)) : NULL;
    if (made != NULL) {
        pick(&p, PyArray_DATA(a), PyArray_ITEMSIZE(a), PyArray_DATA(made));
    }
    return (PyObject *)made;
}

/* Whether the value is an array of as many elements, none of which the array has: *from is where
 * they are. */
static bool has_values(PyArrayObject *a, PyObject *value, const places *p, const char **from)
{
    PyArrayObject *v = (PyArrayObject *)value;
    if (!npa_is_plain(value) || !npa_same_dtype(PyArray_DESCR(v), PyArray_DESCR(a)) ||
        PyArray_NDIM(v) != PyArray_NDIM(p->shape) || !PyArray_SAMESHAPE(v, p->shape) ||
        !PyArray_IS_C_CONTIGUOUS(v) || !PyArray_ISALIGNED(v)) {
        return false;
    }
    *from = PyArray_DATA(v);
    return npa_apart(v, a);
}

bool npa_small_put_places(PyObject *o, PyObject *key, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)o;
    places p;
    char number[16] __attribute__((aligned(16)));
    const char *from = number;
    if ((PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) != NPY_ARRAY_WRITEABLE ||
        !find_places(a, key, &p)) {
        return false;
    }
    bool array = Py_IS_TYPE(value, &PyArray_Type);
    if (array ? !has_values(a, value, &p, &from)
              : !npa_take_scalar(value, PyArray_TYPE(a), number)) {
        return false;
    }
    put(&p, PyArray_DATA(a), PyArray_ITEMSIZE(a), from, array ? PyArray_ITEMSIZE(a) : 0);
    return true;
}
