/* small_places.c: elements or rows of an array at a few places, each told by an integer per axis,
 * as in `a[i, j]`, `a[3, j] = v`, `a[[2, 5]]` and `a[i] = v`; without what NumPy does around it.
 * See Note [Small] in small.c. */
#include "small/small.h"
#include "small/ways.h"

#include <string.h>

enum { MOST_LISTED = 64 };

/* Where the places are: bytes from the array's first element. */
typedef struct {
    int ndim, axes; /* of what is picked; of the indices */
    npy_intp shape[2 * NPA_SMALL_DIMS];
    npy_intp n, size; /* how many; bytes of each */
    int64_t at[NPA_MOST_PLACES];
} places;

static bool is_index(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return Py_IS_TYPE(o, &PyArray_Type) && PyArray_TYPE(a) == NPY_INTP && PyArray_NDIM(a) > 0 &&
           PyArray_NDIM(a) <= NPA_SMALL_DIMS && PyArray_SIZE(a) <= NPA_MOST_PLACES &&
           PyArray_SIZE(a) > 0 && PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) &&
           PyArray_ISNOTSWAPPED(a) && !npa_waits(a);
}

/* Whether all are in bounds; those below 0 count from the end. */
NPA_EACH_PROCESSOR static bool add_axis(int64_t *at, const npy_intp *index, npy_intp n,
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
    npy_intp k;
    if (!npa_take_index(item, &k)) {
        return false;
    }
    k += k < 0 ? extent : 0;
    for (npy_intp i = 0; i < p->n; i++) {
        p->at[i] += k * stride;
    }
    return k >= 0 && k < extent;
}

static bool add_list(places *p, PyObject *list, npy_intp extent, npy_intp stride)
{
    npy_intp index[MOST_LISTED];
    bool whole = true;
    for (npy_intp i = 0; whole && i < p->n; i++) {
        whole = npa_take_index(PyList_GET_ITEM(list, i), &index[i]);
    }
    return whole && add_axis(p->at, index, p->n, extent, stride);
}

static bool is_list(PyObject *o)
{
    if (!PyList_CheckExact(o) || PyList_GET_SIZE(o) == 0 || PyList_GET_SIZE(o) > MOST_LISTED) {
        return false;
    }
    Py_ssize_t i = 0;
    while (i < PyList_GET_SIZE(o) && npa_is_index(PyList_GET_ITEM(o, i))) {
        i++;
    }
    return i == PyList_GET_SIZE(o);
}

/* Whether an index has the shape of those before it: the first axes of what is picked. */
static bool take_shape(places *p, PyObject *index)
{
    bool list = is_list(index);
    if (!list && !is_index(index)) {
        return false;
    }
    npy_intp length = list ? PyList_GET_SIZE(index) : 0;
    int ndim = list ? 1 : PyArray_NDIM((PyArrayObject *)index);
    const npy_intp *shape = list ? &length : PyArray_DIMS((PyArrayObject *)index);
    size_t bytes = sizeof *shape * (size_t)ndim;
    if (p->axes == 0) {
        p->axes = ndim, p->n = list ? length : PyArray_SIZE((PyArrayObject *)index);
        memcpy(p->shape, shape, bytes);
    }
    return p->axes == ndim && memcmp(p->shape, shape, bytes) == 0;
}

/* Whether each place is a piece of memory: all of the axes from that one on. */
static bool take_rows(PyArrayObject *a, int axis, places *p)
{
    p->size = npa_bytes_behind(a, axis);
    p->ndim = p->axes + PyArray_NDIM(a) - axis;
    memcpy(p->shape + p->axes, PyArray_DIMS(a) + axis,
           sizeof *p->shape * (size_t)(PyArray_NDIM(a) - axis));
    return p->size > 0 && p->ndim <= NPA_SMALL_DIMS && p->n * p->size < NPA_SMALL_MOST;
}

/* False: the key is another one, or some place is outside, and NumPy says which. */
static bool find_places(PyArrayObject *a, PyObject *key, places *p)
{
    PyObject *const *items = &key;
    int n = 1;
    if (PyTuple_CheckExact(key)) {
        items = &PyTuple_GET_ITEM(key, 0), n = (int)PyTuple_GET_SIZE(key);
    }
    p->axes = 0;
    if (n > PyArray_NDIM(a) || PyArray_NDIM(a) > NPA_SMALL_DIMS ||
        !npa_small_type(PyArray_DESCR(a)) || !PyArray_ISALIGNED(a)) {
        return false;
    }
    for (int k = 0; k < n; k++) {
        if (!npa_is_index(items[k]) && !take_shape(p, items[k])) {
            return false;
        }
    }
    if (p->axes == 0 || !take_rows(a, n, p)) {
        return false;
    }
    memset(p->at, 0, sizeof *p->at * (size_t)p->n);
    bool inside = true;
    for (int k = 0; inside && k < n; k++) {
        npy_intp extent = PyArray_DIM(a, k), stride = PyArray_STRIDE(a, k);
        PyArrayObject *index = (PyArrayObject *)items[k];
        inside = npa_is_index(items[k])           ? add_number(p, items[k], extent, stride)
                 : PyList_CheckExact(items[k]) ? add_list(p, items[k], extent, stride)
                                               : add_axis(p->at, PyArray_DATA(index), p->n, extent,
                                                          stride);
    }
    return inside;
}

#define PUT(T)                                          \
    for (npy_intp i = 0; i < p->n; i++) {               \
        memcpy(to + p->at[i], from + i * step, sizeof(T)); \
    }                                                   \
    break

/* In the order of the places, so that the last one of several that are the same stays. */
static void put(const places *p, char *to, const char *from, npy_intp step)
{
    switch (p->size) {
    case 1: PUT(uint8_t);
    case 2: PUT(uint16_t);
    case 4: PUT(uint32_t);
    case 8: PUT(uint64_t);
    default:
        for (npy_intp i = 0; i < p->n; i++) {
            memcpy(to + p->at[i], from + i * step, (size_t)p->size);
        }
    }
}

PyObject *npa_small_pick_places(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o;
    places p;
    PyArrayObject *made = find_places(a, key, &p)
                        ? npa_small_new(PyArray_DESCR(a), p.ndim, p.shape) : NULL;
    if (made != NULL) {
        npa_pick_places_of(PyArray_DATA(made), PyArray_DATA(a), p.at, p.n, p.size);
    }
    return (PyObject *)made;
}

/* The values of places: *from is where they are, each *step behind the last one. An array of as
 * many elements, or of a row's, none of which the array has; or a number, in `room`. */
static bool take_values(PyArrayObject *a, PyObject *value, const places *p, char *room,
                        const char **from, npy_intp *step)
{
    PyArrayObject *v = (PyArrayObject *)value;
    if (!Py_IS_TYPE(value, &PyArray_Type)) {
        *from = room, *step = 0;
        return p->size == PyArray_ITEMSIZE(a) && npa_take_scalar(value, PyArray_TYPE(a), room);
    }
    int skipped = p->ndim - PyArray_NDIM(v);
    if (!npa_is_plain(value) || !npa_same_dtype(PyArray_DESCR(v), PyArray_DESCR(a)) ||
        (skipped != 0 && skipped != p->axes) || PyArray_NDIM(v) == 0 ||
        memcmp(PyArray_DIMS(v), p->shape + skipped,
               sizeof *p->shape * (size_t)PyArray_NDIM(v)) != 0 ||
        !PyArray_IS_C_CONTIGUOUS(v) || !PyArray_ISALIGNED(v) || npa_waits(v)) {
        return false;
    }
    *from = PyArray_DATA(v), *step = skipped == 0 ? p->size : 0;
    return npa_apart(v, a);
}

static bool is_written(PyArrayObject *a)
{
    return (PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) == NPY_ARRAY_WRITEABLE;
}

bool npa_small_put_places(PyObject *o, PyObject *key, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)o;
    places p;
    char room[16] __attribute__((aligned(16)));
    const char *from;
    npy_intp step;
    if (!is_written(a) || !find_places(a, key, &p) ||
        !take_values(a, value, &p, room, &from, &step)) {
        return false;
    }
    put(&p, PyArray_DATA(a), from, step);
    return true;
}

/* --------------------------------------------------------------------------- of large arrays */

/* Whether nobody looks on, and no device has it, of whose memory no more is fetched than needed. */
static bool is_free(PyArrayObject *a)
{
    const npa_buffer *b = npa_buffer_of(a);
    return npa_here == NULL && npa_placeholders == 0 && npa_stops == 0 &&
           (b == NULL || (b->copy == NULL && b->placed == NULL));
}

/* So little that to record it would take longer. */
static bool find_little(PyArrayObject *a, PyObject *key, places *p)
{
    return is_free(a) && find_places(a, key, p) &&
           (size_t)(p->n * p->size) < npa_ours_here();
}

PyObject *npa_pick_places(PyArrayObject *a, PyObject *key)
{
    places p;
    npa_opened o;
    if (!find_little(a, key, &p)) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), p.ndim, p.shape);
    if (made != NULL && npa_open(&o, &a, 1, 0) < 0) {
        Py_CLEAR(made);
    }
    if (made != NULL) {
        npa_pick_places_of(PyArray_DATA(made), o.at[0], p.at, p.n, p.size);
        npa_close(&o);
    }
    return (PyObject *)made;
}

int npa_put_places(PyArrayObject *a, PyObject *key, PyObject *value)
{
    places p;
    npa_opened o;
    char room[16] __attribute__((aligned(16)));
    const char *from;
    npy_intp step;
    if (!is_written(a) || !find_little(a, key, &p) ||
        !take_values(a, value, &p, room, &from, &step)) {
        return 0;
    }
    if (npa_open(&o, &a, 1, 1) < 0) {
        return -1;
    }
    put(&p, o.at[0], from, step);
    npa_close(&o);
    return 1;
}
