/* columns.c: x[:, i], x[..., i] of a matrix, by many integers, at once, by all threads. NumPy makes
 * a row of each column that is picked, element by element, and shows these rows turned. Here some
 * rows of the matrix are read at a time, which fill a line of the cache in each row of those. */
#include "functions/places.h"
#include "small/ways.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { LINE = 64, PIECE = 1 << 16 }; /* bytes; elements that one thread takes */

typedef struct {
    const char *from;
    char *to;
    npy_intp *index; /* from 0 on */
    npy_intp rows, columns, n;
    npy_intp each; /* rows of a task */
    int size;
} picking;

typedef npy_cdouble two;

#define PICK(T)                                                                              \
    static void pick_##T(const picking *p, npy_intp first, npy_intp end)                     \
    {                                                                                        \
        enum { ABREAST = LINE / sizeof(T) };                                                 \
        for (npy_intp r = first; r < end; r += ABREAST) {                                    \
            const T *from = (const T *)(const void *)p->from + r * p->columns;               \
            npy_intp m = end - r < ABREAST ? end - r : ABREAST;                              \
            for (npy_intp k = 0; k < p->n; k++) {                                            \
                T *to = (T *)(void *)p->to + k * p->rows + r;                                \
                const T *at = from + p->index[k];                                            \
                for (npy_intp j = 0; m == ABREAST && j < ABREAST; j++) {                     \
                    to[j] = at[j * p->columns];                                              \
                }                                                                            \
                for (npy_intp j = 0; m < ABREAST && j < m; j++) {                            \
                    to[j] = at[j * p->columns];                                              \
                }                                                                            \
            }                                                                                \
        }                                                                                    \
    }
PICK(uint8_t)
PICK(uint16_t)
PICK(uint32_t)
PICK(uint64_t)
PICK(two)

static void pick_rows(void *context, int64_t task, int worker)
{
    const picking *p = context;
    npy_intp first = task * p->each, end = first + p->each < p->rows ? first + p->each : p->rows;
    (void)worker;
    switch (p->size) {
    case 1: pick_uint8_t(p, first, end); break;
    case 2: pick_uint16_t(p, first, end); break;
    case 4: pick_uint32_t(p, first, end); break;
    case 8: pick_uint64_t(p, first, end); break;
    default: pick_two(p, first, end);
    }
}

/* The indices, counted from the start. False: one is out of bounds. */
static bool find_columns(picking *p, const npy_intp *index)
{
    bool inside = true;
    for (npy_intp k = 0; k < p->n; k++) {
        npy_intp at = index[k] + (index[k] < 0 ? p->columns : 0);
        inside &= at >= 0 && at < p->columns;
        p->index[k] = at;
    }
    return inside;
}

/* With both opened. 0: an index is out of bounds, which NumPy tells of. -1: an error. */
static int run(picking *p, PyArrayObject *a, PyArrayObject *index)
{
    PyArrayObject *both[] = {a, index};
    npa_opened o;
    if (npa_open(&o, both, 2, 0) < 0) {
        return -1;
    }
    bool inside = find_columns(p, (const npy_intp *)(const void *)o.at[1]);
    p->from = o.at[0];
    if (inside) {
        npa_pool_run(pick_rows, p, (p->rows + p->each - 1) / p->each, NULL);
    }
    npa_close(&o);
    return inside;
}

/* Whether this NumPy lays such a result out so, as is asked once, of a small one. */
static bool are_turned(PyObject *whole)
{
    static int known = -1;
    npy_intp shape[] = {3, 4};
    if (known < 0) {
        PyObject *a = PyArray_ZEROS(2, shape, NPY_BYTE, 0), *i = PyArray_Arange(0, 2, 1, NPY_INTP);
        PyObject *key = i != NULL ? PyTuple_Pack(2, whole, i) : NULL;
        PyObject *got = a != NULL && key != NULL ? PyObject_GetItem(a, key) : NULL;
        PyArrayObject *b = (PyArrayObject *)got;
        known = got != NULL && PyArray_STRIDE(b, 0) == 1 && PyArray_STRIDE(b, 1) == 3 &&
                PyArray_BASE(b) != NULL && PyArray_Check(PyArray_BASE(b)) &&
                PyArray_DIM((PyArrayObject *)PyArray_BASE(b), 0) == 2;
        PyErr_Clear();
        Py_XDECREF(a), Py_XDECREF(i), Py_XDECREF(key), Py_XDECREF(got);
    }
    return known;
}

static bool is_whole(PyObject *o)
{
    PySliceObject *s = (PySliceObject *)o;
    return o == Py_Ellipsis ||
           (PySlice_Check(o) && s->start == Py_None && s->stop == Py_None &&
            s->step == Py_None);
}

static bool are_usual(PyArrayObject *a, PyObject *o)
{
    PyArrayObject *i = (PyArrayObject *)o;
    return npa_usual_items((PyObject *)a) && PyArray_NDIM(a) == 2 && PyArray_IS_C_CONTIGUOUS(a) &&
           PyArray_ISALIGNED(a) && PyArray_DIM(a, 0) > 1 && PyArray_ITEMSIZE(a) <= 16 &&
           npa_usual_items(o) && PyArray_TYPE(i) == NPY_INTP && PyArray_NDIM(i) == 1 &&
           PyArray_IS_C_CONTIGUOUS(i) && PyArray_ISALIGNED(i) && PyArray_DIM(i, 0) > 1 &&
           PyArray_DIM(a, 0) >= NPA_LEAST_PLACED / PyArray_DIM(i, 0);
}

PyObject *npa_gather_columns(PyArrayObject *a, PyObject *whole, PyObject *o)
{
    PyArrayObject *i = (PyArrayObject *)o;
    if (!is_whole(whole) || !are_usual(a, o) || !are_turned(whole)) {
        return NULL;
    }
    npy_intp shape[] = {PyArray_DIM(i, 0), PyArray_DIM(a, 0)};
    picking p = {.rows = shape[1], .columns = PyArray_DIM(a, 1), .n = shape[0],
                 .size = (int)PyArray_ITEMSIZE(a)};
    npy_intp lines = PIECE / p.n * p.size / LINE + 1;
    p.each = lines * LINE / p.size;
    p.index = malloc((size_t)p.n * sizeof *p.index);
    PyArrayObject *made = p.index != NULL ? npa_small_new(PyArray_DESCR(a), 2, shape) : NULL;
    p.to = made != NULL ? PyArray_BYTES(made) : NULL;
    PyObject *turned = made != NULL && run(&p, a, i) > 0 ? PyArray_Transpose(made, NULL) : NULL;
    free(p.index);
    Py_XDECREF(made);
    return turned;
}
