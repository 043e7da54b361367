/* small_picks.c: elements of small plain arrays by a mask or by integers, read and written, without
 * what NumPy does around it. See Note [Small] in small.c. */
#include "small/small.h"
#include "small/ways.h"

#include <string.h>

enum { BLOCK = 512, MOST_DIMS = NPA_SMALL_DIMS };

static bool is_simple(PyArrayObject *a)
{
    return npa_small_type(PyArray_DESCR(a)) && PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) &&
           PyArray_NDIM(a) > 0 && PyArray_SIZE(a) > 0 &&
           !npa_small_is_large((size_t)PyArray_NBYTES(a));
}

/* Elements of one size by indices in bounds; those below 0 count from the end. */
#define TAKE(T)                                                                                    \
    NPA_EACH_PROCESSOR static void take_##T(const char *a, npy_intp extent, const npy_intp *index, \
                                            npy_intp n, char *to)                                  \
    {                                                                                              \
        const T *from = (const T *)a;                                                              \
        T *out = (T *)to;                                                                          \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            npy_intp k = index[i];                                                                 \
            out[i] = from[k + ((k >> 63) & extent)];                                               \
        }                                                                                          \
    }
TAKE(uint8_t)
TAKE(uint16_t)
TAKE(uint32_t)
TAKE(uint64_t)

/* Short rows: moved without a call each. */
typedef struct {
    uint64_t of[2];
} two;
typedef struct {
    uint64_t of[3];
} three;
TAKE(two)
TAKE(three)

/* Rows of so many bytes each, likewise. */
static void take_rows(PyArrayObject *a, const npy_intp *index, npy_intp n, npy_intp bytes, char *to)
{
    npy_intp extent = PyArray_DIM(a, 0);
    const char *from = PyArray_BYTES(a);
    switch (((uintptr_t)from & 7) == 0 || bytes == PyArray_ITEMSIZE(a) ? bytes : 0) {
    case 1: take_uint8_t(from, extent, index, n, to); return;
    case 2: take_uint16_t(from, extent, index, n, to); return;
    case 4: take_uint32_t(from, extent, index, n, to); return;
    case 8: take_uint64_t(from, extent, index, n, to); return;
    case 16: take_two(from, extent, index, n, to); return;
    case 24: take_three(from, extent, index, n, to); return;
    default: break;
    }
    for (npy_intp i = 0; i < n; i++, to += bytes) {
        npy_intp k = index[i] + (index[i] < 0 ? extent : 0);
        memcpy(to, from + k * bytes, (size_t)bytes);
    }
}

static PyObject *take(PyArrayObject *a, PyArrayObject *index)
{
    npa_indices of;
    npy_intp shape[MOST_DIMS], n = PyArray_SIZE(index), wide[BLOCK], rows = PyArray_DIM(a, 0);
    int ndim = PyArray_NDIM(index), rest = PyArray_NDIM(a) - 1;
    npy_intp bytes = PyArray_NBYTES(a) / rows;
    if (ndim + rest > MOST_DIMS || (double)n * (double)bytes >= (double)SIZE_MAX ||
        npa_small_is_large((size_t)(n * bytes)) || !npa_indices_of(index, rows, &of) ||
        npa_bounds_of(&of, PyArray_BYTES(index)) > 1) {
        return NULL;
    }
    memcpy(shape, PyArray_DIMS(index), sizeof *shape * (size_t)ndim);
    memcpy(shape + ndim, PyArray_DIMS(a) + 1, sizeof *shape * (size_t)rest);
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), ndim + rest, shape);
    if (made == NULL) {
        return NULL;
    }
    if (of.type == NPY_LONG) {
        take_rows(a, (const npy_intp *)PyArray_DATA(index), n, bytes, PyArray_BYTES(made));
        return (PyObject *)made;
    }
    for (npy_intp at = 0; at < n; at += BLOCK) {
        npy_intp m = n - at < BLOCK ? n - at : BLOCK;
        npa_cast(of.type, PyArray_BYTES(index) + at * of.size, of.size, NPY_LONG, (char *)wide,
                 sizeof *wide, m);
        take_rows(a, wide, m, bytes, PyArray_BYTES(made) + at * bytes);
    }
    return (PyObject *)made;
}

PyObject *npa_small_pick(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o, *by = (PyArrayObject *)key;
    PyObject *result;
    if (!is_simple(a) || !is_simple(by)) {
        return NULL;
    }
    if (PyArray_TYPE(by) == NPY_BOOL) {
        return npa_pick(a, key, &result) == 1 ? result : NULL;
    }
    return PyTypeNum_ISINTEGER(PyArray_TYPE(by)) ? take(a, by) : NULL;
}

bool npa_small_put_picked(PyObject *o, PyObject *key, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)o, *by = (PyArrayObject *)key;
    char number[16] __attribute__((aligned(16)));
    if (!is_simple(a) || !is_simple(by) || PyArray_TYPE(by) != NPY_BOOL) {
        return false;
    }
    if (Py_IS_TYPE(value, &PyArray_Type)) {
        PyArrayObject *v = (PyArrayObject *)value;
        return npa_same_dtype(PyArray_DESCR(v), PyArray_DESCR(a)) && is_simple(v) &&
               npa_put(a, key, value) == 1;
    }
    return npa_take_scalar(value, PyArray_TYPE(a), number) && npa_put_number(a, by, number) == 1;
}
