/* nonzero.c: where an array is not 0, by all threads. With the GIL. */
#include "record/pieces.h"
#include "record/record.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { BLOCK = 1 << 12, GROUP = 64 };  /* elements that are made a mask, or looked at, at a time */

typedef struct {
    const char *from; /* those are in that are not 0 */
    int type, ndim;
    size_t size; /* bytes of an element */
    npa_pieces pieces;
    const npy_intp *dims;
    npy_intp *to;
} places;

#define TRUTHS(name, T, IS)                                                                       \
    NPA_EACH_PROCESSOR static void truths_##name(const T *x, int64_t n, char *to)                 \
    {                                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                         \
            to[i] = IS(x[i]);                                                                     \
        }                                                                                         \
    }
#define IS_NOT_0(x) ((x) != 0)
#define IS_HALF(x) (((x) & 0x7fff) != 0)
#define IS_COMPLEX(x) (((x)[0] != 0) | ((x)[1] != 0))
typedef float two_floats[2];
typedef double two_doubles[2];
TRUTHS(byte, uint8_t, IS_NOT_0)
TRUTHS(short, uint16_t, IS_NOT_0)
TRUTHS(int, uint32_t, IS_NOT_0)
TRUTHS(long, uint64_t, IS_NOT_0)
TRUTHS(half, uint16_t, IS_HALF)
TRUTHS(float, float, IS_NOT_0)
TRUTHS(double, double, IS_NOT_0)
TRUTHS(cfloat, two_floats, IS_COMPLEX)
TRUTHS(cdouble, two_doubles, IS_COMPLEX)

/* So many of the numbers as a mask, in `room` or where they are. */
static const char *mask_of(const places *p, int64_t first, int64_t n, char *room)
{
#define MADE(name, T) truths_##name((const T *)p->from + first, n, room); return room
    switch (p->type) {
    case NPY_BOOL: return p->from + first;
    case NPY_HALF: MADE(half, uint16_t);
    case NPY_FLOAT: MADE(float, float);
    case NPY_DOUBLE: MADE(double, double);
    case NPY_CFLOAT: MADE(cfloat, two_floats);
    case NPY_CDOUBLE: MADE(cdouble, two_doubles);
    default: break;
    }
    switch (p->size) {
    case 1: MADE(byte, uint8_t);
    case 2: MADE(short, uint16_t);
    case 4: MADE(int, uint32_t);
    default: MADE(long, uint64_t);
    }
}

static void count_piece(void *context, int64_t i, int worker)
{
    places *p = context;
    char room[BLOCK];
    int64_t first = i * p->pieces.piece, end = first + npa_piece_length(&p->pieces, i), count = 0;
    (void)worker;
    for (int64_t n; first < end; first += n) {
        n = p->type == NPY_BOOL || end - first < BLOCK ? end - first : BLOCK;
        count += npa_count_true(mask_of(p, first, n, room), n);
    }
    p->pieces.before[i + 1] = count;
}

/* Of each of eight bits that is set its place among them. */
static uint8_t set_bits[256][8];

static void find_set_bits(void)
{
    for (unsigned bits = set_bits[2][0] == 1 ? 256 : 0; bits < 256; bits++) {
        int n = 0;
        for (unsigned k = 0; k < 8; k++) {
            set_bits[bits][n] = (uint8_t)k;
            n += (bits >> k & 1) != 0;
        }
    }
}

/* Of those that are in, where they are; all eight are written, and the next ones over those that
 * were not in. */
static inline npy_intp *put_eight(npy_intp *to, unsigned bits, npy_intp first)
{
    uint8_t these[8]; /* apart from what is written, which the compiler can't see of the table */
    memcpy(these, set_bits[bits], sizeof these);
    for (int k = 0; k < 8; k++) {
        to[k] = first + these[k];
    }
    return to + __builtin_popcount(bits);
}

static inline bool all_out(const char *mask)
{
    uint64_t found = 0, eight;
    for (int k = 0; k < GROUP; k += 8) {
        memcpy(&eight, mask + k, 8);
        found |= eight;
    }
    return found == 0;
}

/* Up to `end`, behind which another piece begins. */
NPA_EACH_PROCESSOR
static npy_intp *put_places(npy_intp *to, const npy_intp *end, const char *mask, int64_t n,
                            npy_intp first)
{
    for (int64_t i = 0; i < n && to != end; i += GROUP) {
        if (i + GROUP <= n && all_out(mask + i)) {
            /* Before there is a look at whether few are left, as everywhere where few are in */
            continue;
        }
        if (i + GROUP > n || end - to < GROUP) {
            for (int64_t k = i; k < n && k < i + GROUP && to != end; k++) {
                *to = first + k;
                to += mask[k] != 0;
            }
        } else {
            for (int k = 0; k < GROUP; k += 8) {
                to = put_eight(to, npa_bits_of(mask + i + k), first + i + k);
            }
        }
    }
    return to;
}

/* The same of several axes; `row` is where the ones before ended, of which the first is `begin`. */
static npy_intp put_rows(const places *p, npy_intp *to, const npy_intp *from, int64_t n,
                         npy_intp *row, npy_intp begin)
{
    npy_intp length = p->dims[p->ndim - 1];
    for (int64_t i = 0; i < n; i++) {
        for (; from[i] - begin >= length; begin += length) {
            for (int k = p->ndim - 2; k >= 0 && ++row[k] == p->dims[k]; k--) {
                row[k] = 0;
            }
        }
        for (int k = 0; k < p->ndim - 1; k++) {
            *to++ = row[k];
        }
        *to++ = from[i] - begin;
    }
    return begin;
}

static void places_of_piece(void *context, int64_t i, int worker)
{
    const places *p = context;
    const npa_pieces *all = &p->pieces;
    int ndim = p->ndim;
    char room[BLOCK];
    npy_intp found[BLOCK], row[NPY_MAXDIMS];
    int64_t first = i * all->piece, last = first + npa_piece_length(all, i);
    int64_t length = p->dims[ndim - 1];
    npy_intp begin = first - first % length, left = first / length;
    npy_intp *to = p->to + all->before[i] * ndim, *end = p->to + all->before[i + 1] * ndim;
    (void)worker;
    for (int k = ndim - 2; k >= 0; k--) {
        row[k] = left % p->dims[k], left /= p->dims[k];
    }
    for (int64_t n; first < last && to != end; first += n) {
        n = last - first < BLOCK ? last - first : BLOCK;
        const char *mask = mask_of(p, first, n, room);
        if (ndim == 1) {
            to = put_places(to, end, mask, n, first);
        } else {
            npy_intp most = (end - to) / ndim < BLOCK ? (end - to) / ndim : BLOCK;
            npy_intp count = put_places(found, found + most, mask, n, first) - found;
            begin = put_rows(p, to, found, count, row, begin);
            to += count * ndim;
        }
    }
    memset(to, 0, (size_t)((char *)end - (char *)to));
}

/* As NumPy has it: views of the columns of one array. */
static PyObject *columns_of(PyArrayObject *all, int ndim)
{
    PyObject *tuple = PyTuple_New(ndim);
    npy_intp step = ndim * (npy_intp)sizeof(npy_intp), n = PyArray_DIM(all, 0);
    for (int k = 0; tuple != NULL && k < ndim; k++) {
        char *first = PyArray_BYTES(all) + (n > 0 ? k * (npy_intp)sizeof(npy_intp) : 0);
        npa_fill_in(&tuple, k, npa_view_over(all, Py_TYPE(all), PyArray_DESCR(all), 1, &n, &step,
                                             first, PyArray_FLAGS(all)));
    }
    return tuple;
}

PyObject *npa_nonzero(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    enum { LEAST = 1 << 12 };
    PyArrayObject *a = (PyArrayObject *)self;
    (void)what, (void)args, (void)names;
    if (!(PyArray_CheckExact(self) || Py_IS_TYPE(self, npa_array_type)) || n != 0 ||
        PyArray_SIZE(a) < LEAST || !PyArray_IS_C_CONTIGUOUS(a) || PyArray_NDIM(a) == 0 ||
        !npa_dtype_known(PyArray_DESCR(a)) ||
        !PyArray_ISALIGNED(a) || !npa_lies_open(a, false)) {
        return NULL;
    }
    places p = {.from = PyArray_BYTES(a),
                .type = PyArray_TYPE(a),
                .size = (size_t)PyArray_ITEMSIZE(a),
                .pieces = npa_cut(PyArray_SIZE(a)),
                .ndim = PyArray_NDIM(a),
                .dims = PyArray_DIMS(a)};
    npa_count_pieces(&p.pieces, count_piece, &p, PyArray_NBYTES(a));
    npy_intp dims[2] = {p.pieces.count, p.ndim};
    find_set_bits();
    char *place;
    PyObject *made = npa_new_result(NPY_INTP, 2, dims, &place), *result = NULL;
    if (made != NULL) {
        p.to = (npy_intp *)place;
        npa_pool_run(places_of_piece, &p, dims[0] > 0 ? npa_piece_count(&p.pieces) : 0, NULL);
        result = columns_of((PyArrayObject *)made, p.ndim);
    }
    Py_XDECREF(made);
    return result;
}

PyObject *npa_where(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                    PyObject *names)
{
    (void)self;
    return n == 1 && names == NULL && PyArray_Check(args[0])
               ? npa_nonzero(what, args[0], NULL, 0, NULL)
               : NULL;
}
