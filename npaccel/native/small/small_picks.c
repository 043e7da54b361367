/* small_picks.c: elements of small plain arrays by a mask or by integers, read and written, without
 * what NumPy does around it. See Note [Small] in small.c. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <stdatomic.h>
#include <string.h>

enum { BLOCK = 1024, MOST_DIMS = NPA_SMALL_DIMS };
enum { PIECE = 1 << 16 }; /* elements of a thread's task */
enum { FEW = 128 };       /* that looking at indices twice costs */

static bool is_simple(PyArrayObject *a)
{
    return npa_small_type(PyArray_DESCR(a)) && PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) &&
           PyArray_NDIM(a) > 0 && PyArray_SIZE(a) > 0;
}

/* What `take` reads: lines, and rows wherever they lie whose elements lie one after the other. The
 * stride of an axis of one element would be the result's, too. */
static bool has_rows(PyArrayObject *a)
{
    npy_intp bytes = PyArray_ITEMSIZE(a);
    int last = PyArray_NDIM(a) - 1;
    for (int k = last; k > 0; bytes *= PyArray_DIM(a, k), k--) {
        if (PyArray_STRIDE(a, k) != bytes) {
            return false;
        }
    }
    return npa_small_type(PyArray_DESCR(a)) && PyArray_ISALIGNED(a) && PyArray_SIZE(a) > 0 &&
           (last > 0 || (last == 0 && PyArray_IS_C_CONTIGUOUS(a)));
}

/* What masks pick and put is faster here than NumPy's also of larger arrays that are left to it. */
static bool is_small(PyArrayObject *a) { return !npa_small_exceeds((size_t)PyArray_NBYTES(a)); }

#if defined(__GNUC__) && !defined(__clang__)
#define AS_SCALARS __attribute__((optimize("no-tree-vectorize"))) /* vectors gather no faster */
#else
#define AS_SCALARS
#endif

/* Elements of one size by indices in bounds; those below 0 count from the end. */
#define TAKE(T, I)                                                                                 \
    AS_SCALARS static void take_##T##_##I(const char *a, npy_intp extent, const char *index,       \
                                          npy_intp n, char *to)                                    \
    {                                                                                              \
        const T *from = (const T *)a;                                                              \
        const I *at = (const I *)index;                                                            \
        T *out = (T *)to;                                                                          \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            npy_intp k = (npy_intp)at[i];                                                          \
            out[i] = from[k + ((k >> 63) & extent)];                                               \
        }                                                                                          \
    }
#define TAKES(T) TAKE(T, uint8_t) TAKE(T, int32_t) TAKE(T, int64_t)

/* Short rows: moved without a call each. */
typedef struct {
    uint64_t of[2];
} two;
typedef struct {
    uint64_t of[3];
} three;
TAKES(uint8_t)
TAKES(uint16_t)
TAKES(uint32_t)
TAKES(uint64_t)
TAKES(two)
TAKES(three)

typedef void take_line(const char *a, npy_intp extent, const char *index, npy_intp n, char *to);
enum { BY_BYTE, BY_INT, BY_LONG, WIDTHS = 6 };
#define TAKEN(T) {take_##T##_uint8_t, take_##T##_int32_t, take_##T##_int64_t}
static take_line *const lines[WIDTHS][3] = {TAKEN(uint8_t),  TAKEN(uint16_t), TAKEN(uint32_t),
                                            TAKEN(uint64_t), TAKEN(two),      TAKEN(three)};

/* What is picked: rows of `bytes` each of an array of `extent` rows, `step` bytes apart. */
typedef struct {
    const char *from, *index;
    char *to;
    npy_intp extent, n, bytes, step;
    npa_indices of;
    int width; /* of `lines`; -1: rows are copied one by one */
    atomic_bool outside; /* some index is out of bounds */
} picking;

static void take_rows(const picking *p, int by, const char *index, npy_intp n, char *to)
{
    if (p->width >= 0) {
        lines[p->width][by](p->from, p->extent, index, n, to);
        return;
    }
    for (npy_intp i = 0; i < n; i++, to += p->bytes) {
        npy_intp k = by == BY_BYTE  ? ((const uint8_t *)index)[i]
                   : by == BY_INT ? ((const int32_t *)(const void *)index)[i]
                                  : ((const int64_t *)(const void *)index)[i];
        memcpy(to, p->from + (k < 0 ? k + p->extent : k) * p->step, (size_t)p->bytes);
    }
}

/* Indices are looked at where they are in the cache. */
static void take_piece(void *context, int64_t piece, int worker)
{
    picking *p = context;
    npy_intp wide[BLOCK], first = piece * PIECE, end = p->n - first < PIECE ? p->n : first + PIECE;
    int type = p->of.type, by = type == NPY_UBYTE ? BY_BYTE : type == NPY_INT ? BY_INT : BY_LONG;
    npa_indices of = p->of;
    (void)worker;
    of.ndim = 1, of.lengths[1] = of.size;
    for (npy_intp m; first < end; first += m) {
        const char *index = p->index + first * of.size;
        m = end - first < BLOCK ? end - first : BLOCK;
        of.lengths[0] = m;
        if (npa_bounds_of(&of, index) > 1) {
            atomic_store(&p->outside, true);
            return;
        }
        if (by == BY_LONG && type != NPY_LONG) {
            npa_cast(type, index, of.size, NPY_LONG, (char *)wide, sizeof *wide, m);
            index = (const char *)wide;
        }
        take_rows(p, by, index, m, p->to + first * p->bytes);
    }
}

/* So few of a line's that it pays to look at each index only as it is used. NULL, without error:
 * some are out of bounds, and NumPy says which. */
static PyObject *take_few(PyArrayObject *a, PyArrayObject *index)
{
    npy_intp n = PyArray_SIZE(index), extent = PyArray_SIZE(a);
    const npy_intp *at = PyArray_DATA(index);
    const uint64_t *from = PyArray_DATA(a);
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), PyArray_NDIM(index), PyArray_DIMS(index));
    uint64_t *to = made != NULL ? PyArray_DATA(made) : NULL;
    for (npy_intp i = 0; made != NULL && i < n; i++) {
        npy_intp k = at[i] < 0 ? at[i] + extent : at[i];
        if (k < 0 || k >= extent) {
            Py_CLEAR(made);
            break;
        }
        to[i] = from[k];
    }
    return (PyObject *)made;
}

static PyObject *take(PyArrayObject *a, PyArrayObject *index)
{
    npa_indices of;
    npy_intp shape[MOST_DIMS], n = PyArray_SIZE(index), rows = PyArray_DIM(a, 0);
    int ndim = PyArray_NDIM(index), rest = PyArray_NDIM(a) - 1;
    npy_intp bytes = PyArray_NBYTES(a) / rows, step = rows > 1 ? PyArray_STRIDE(a, 0) : bytes;
    double all = (double)n * (double)bytes + (double)PyArray_NBYTES(index);
    if (ndim + rest > MOST_DIMS || all > NPA_SMALL_AT_ONCE ||
        (npa_small_class != NULL && npa_small_is_large((size_t)(n * bytes))) ||
        !npa_indices_of(index, rows, &of)) {
        return NULL;
    }
    memcpy(shape, PyArray_DIMS(index), sizeof *shape * (size_t)ndim);
    memcpy(shape + ndim, PyArray_DIMS(a) + 1, sizeof *shape * (size_t)rest);
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), ndim + rest, shape);
    if (made == NULL) {
        return NULL;
    }
    picking p = {.from = PyArray_BYTES(a),
                 .index = PyArray_BYTES(index),
                 .to = PyArray_BYTES(made),
                 .extent = rows,
                 .n = n,
                 .bytes = bytes,
                 .step = step,
                 .of = of,
                 .width = -1};
    static const npy_intp widths[WIDTHS] = {1, 2, 4, 8, 16, 24};
    bool aligned = bytes == PyArray_ITEMSIZE(a) || ((uintptr_t)p.from & 7) == 0;
    for (int w = 0; aligned && step == bytes && w < WIDTHS; w++) {
        p.width = widths[w] == bytes ? w : p.width;
    }
    PyThreadState *mine = npa_small_let_go(n);
    npa_pool_run(take_piece, &p, (n + PIECE - 1) / PIECE, NULL);
    if (mine != NULL) {
        PyEval_RestoreThread(mine);
    }
    if (p.outside) { /* NumPy says which */
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

PyObject *npa_small_pick(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o, *by = (PyArrayObject *)key;
    PyObject *result;
    if (!is_simple(by)) {
        return NULL;
    }
    if (PyArray_TYPE(by) == NPY_BOOL) {
        bool small = is_simple(a) && is_small(a) && is_small(by);
        return small && npa_pick(a, key, &result) == 1 ? result : NULL;
    }
    if (!has_rows(a) || !PyTypeNum_ISINTEGER(PyArray_TYPE(by)) || !npa_lies_open(a, false) ||
        !npa_lies_open(by, false)) {
        return NULL;
    }
    bool few = PyArray_SIZE(by) <= FEW && PyArray_TYPE(by) == NPY_INTP && PyArray_ISALIGNED(by) &&
               PyArray_NDIM(a) == 1 && PyArray_ITEMSIZE(a) == (int)sizeof(uint64_t) &&
               PyArray_ISALIGNED(a) && npa_small_class == NULL;
    return few ? take_few(a, by) : take(a, by);
}

bool npa_small_put_picked(PyObject *o, PyObject *key, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)o, *by = (PyArrayObject *)key;
    char number[16] __attribute__((aligned(16)));
    if (!is_simple(a) || !is_simple(by) || !is_small(a) || !is_small(by) ||
        PyArray_TYPE(by) != NPY_BOOL) {
        return false;
    }
    if (Py_IS_TYPE(value, &PyArray_Type)) {
        PyArrayObject *v = (PyArrayObject *)value;
        return npa_same_dtype(PyArray_DESCR(v), PyArray_DESCR(a)) && is_simple(v) && is_small(v) &&
               npa_put(a, key, value) == 1;
    }
    return npa_take_scalar(value, PyArray_TYPE(a), number) && npa_put_number(a, by, number) == 1;
}

/* What NumPy's own function takes by few indices, or by one, without what is around it. */
static PyObject *take_directly(PyObject *a, PyObject *by, int axis)
{
    bool few = npa_small_class == NULL && npa_small_usual(a) &&
               (PyLong_CheckExact(by) ||
                (npa_small_usual(by) && PyArray_SIZE((PyArrayObject *)by) < 2 * PIECE));
    PyObject *made = few ? PyArray_TakeFrom((PyArrayObject *)a, by, axis, NULL, NPY_RAISE) : NULL;
    return made != NULL ? PyArray_Return((PyArrayObject *)made) : NULL;
}

/* Along an axis, or of a line; not where NumPy's own indices are many, but fewer than threads pay
 * for */
static PyObject *take_along(PyObject *a, PyObject *by, PyObject *along)
{
    int ndim = PyArray_NDIM((PyArrayObject *)a), axis = 0;
    if (along == NULL || along == Py_None ? ndim != 1 : !npa_small_axis(along, ndim, &axis)) {
        return NULL;
    }
    if (PyLong_CheckExact(by)) {
        return take_directly(a, by, axis);
    }
    PyArrayObject *index = npa_is_plain(by) ? (PyArrayObject *)by : NULL;
    /* Whether unsigned ones of 64 bits are indices hangs on the NumPy. */
    if (index == NULL || !PyTypeNum_ISINTEGER(PyArray_TYPE(index)) ||
        (PyArray_ITEMSIZE(index) == 8 && PyTypeNum_ISUNSIGNED(PyArray_TYPE(index)))) {
        return NULL;
    }
    bool own = PyArray_ITEMSIZE(index) < (int)sizeof(npy_intp) || PyArray_SIZE(index) <= FEW ||
               PyArray_SIZE(index) >= 2 * PIECE;
    return axis == 0 && own ? npa_small_pick(a, by) : take_directly(a, by, axis);
}

/* take(indices, axis=None, out=None, mode="raise") */
PyObject *npa_small_take(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    static const char *const words[] = {"a", "indices", "axis", "out", "mode"};
    PyObject *given[5] = {NULL};
    if (!npa_read_call(args, n, names, words, 5, given) || given[1] == NULL ||
        (given[3] != NULL && given[3] != Py_None) ||
        (given[4] != NULL && !npa_is_text(given[4], "raise"))) {
        return NULL;
    }
    PyObject *listed = npa_small_of_list(given[1]);
    if (listed == NULL && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *made = take_along(args[0], listed != NULL ? listed : given[1], given[2]);
    Py_XDECREF(listed);
    return made;
}
