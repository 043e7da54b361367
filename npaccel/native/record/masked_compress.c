/* masked_compress.c: array[mask], at once, for how many elements it has depends on values, so it
 * can't wait; array[mask] = values, whose number has to be looked at; and where an array is not 0.
 *
 * Runs of eight that are all in or all out go as one; else each element is written and the place of
 * the next one moved only if it was in, for a branch would be guessed wrong. With the GIL. */
#include "record/record.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* A mask is cut into pieces, which all threads go through: what each of them has is counted first.
 * The caller keeps the GIL, so that nobody records meanwhile, and hides what workers read: they
 * can't wait for it. */
/* Elements at least; pieces at most */
enum { PIECE = 1 << 14, PIECES = 64, COUNTED_ALONE = 1 << 19 };
enum { BLOCK = 1 << 12, GROUP = 64 };  /* elements that are made a mask, or looked at, at a time */

typedef struct {
    const char *mask; /* or any numbers, of which those are in that are not 0 */
    int type;
    int64_t n, piece, count;        /* of the mask; of a piece; how many are in */
    int64_t before[PIECES + 1];     /* how many are in before a piece */
    char *to;
    const char *from;
    size_t size; /* bytes of an element */
} masked;

static int64_t pieces_of(const masked *m) { return (m->n + m->piece - 1) / m->piece; }

static int64_t length_of(const masked *m, int64_t i)
{
    return m->n - i * m->piece < m->piece ? m->n - i * m->piece : m->piece;
}

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
static const char *mask_of(const masked *m, int64_t first, int64_t n, char *room)
{
#define MADE(name, T) truths_##name((const T *)m->mask + first, n, room); return room
    switch (m->type) {
    case NPY_BOOL: return m->mask + first;
    case NPY_HALF: MADE(half, uint16_t);
    case NPY_FLOAT: MADE(float, float);
    case NPY_DOUBLE: MADE(double, double);
    case NPY_CFLOAT: MADE(cfloat, two_floats);
    case NPY_CDOUBLE: MADE(cdouble, two_doubles);
    default: break;
    }
    switch (m->size) {
    case 1: MADE(byte, uint8_t);
    case 2: MADE(short, uint16_t);
    case 4: MADE(int, uint32_t);
    default: MADE(long, uint64_t);
    }
}

static void count_piece(void *context, int64_t i, int worker)
{
    masked *m = context;
    char room[BLOCK];
    int64_t first = i * m->piece, end = first + length_of(m, i), count = 0;
    (void)worker;
    for (int64_t n; first < end; first += n) {
        n = m->type == NPY_BOOL || end - first < BLOCK ? end - first : BLOCK;
        count += npa_count_true(mask_of(m, first, n, room), n);
    }
    m->before[i + 1] = count;
}

static masked count_masked(const char *mask, int64_t n, int type, size_t size)
{
    int64_t piece = (n + PIECES - 1) / PIECES;
    masked m = {.mask = mask,
                .n = n,
                .piece = piece < PIECE ? PIECE : (piece + 7) & ~(int64_t)7,
                .type = type,
                .size = size};
    bool alone = n * (int64_t)size <= COUNTED_ALONE;
    for (int64_t i = 0; alone && i < pieces_of(&m); i++) {
        count_piece(&m, i, 0);
    }
    if (!alone) {
        npa_pool_run(count_piece, &m, pieces_of(&m), NULL);
    }
    for (int64_t i = 0; i < pieces_of(&m); i++) {
        m.before[i + 1] += m.before[i];
    }
    m.count = m.before[pieces_of(&m)];
    return m;
}

/* Elements of `size` bytes each, of which `count` are in. The mask may be written meanwhile: what
 * is written never passes the end. */
static void pick_elements(char *to, int64_t count, const char *from, const char *mask, int64_t n,
                          size_t size)
{
    char *end = to + count * (int64_t)size;
    int64_t i = npa_compress(&to, end, from, mask, n, size);
#define PICK(type)                                                                               \
    while (i < n && to != end) {                                                   \
        uint64_t eight = 1;                                                                      \
        if (n - i >= 8) {                                                                        \
            memcpy(&eight, mask + i, 8);                                                         \
        }                                                                                        \
        if (eight == 0) {                                                                        \
            i += 8;                                                                              \
        } else if (eight == 0x0101010101010101 && end - to >= (int64_t)(8 * sizeof(type))) {     \
            memcpy(to, from + i * (int64_t)sizeof(type), 8 * sizeof(type));                      \
            i += 8, to += 8 * sizeof(type);                                                      \
        } else {                                                                                 \
            for (int64_t last = i + 8 < n ? i + 8 : n; i < last && to != end; i++) {             \
                memcpy(to, from + i * (int64_t)sizeof(type), sizeof(type));                      \
                to += mask[i] != 0 ? sizeof(type) : 0;                                           \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    break
    switch (size) {
    case 1: PICK(uint8_t);
    case 2: PICK(uint16_t);
    case 4: PICK(uint32_t);
    case 8: PICK(uint64_t);
    case 16: PICK(npy_cdouble);
    default:
        for (; i < n && to != end; i++) {
            if (mask[i] != 0) {
                memcpy(to, from + i * (int64_t)size, size);
                to += size;
            }
        }
    }
    memset(to, 0, (size_t)(end - to));
}

static void pick_piece(void *context, int64_t i, int worker)
{
    masked *m = context;
    int64_t size = (int64_t)m->size, at = i * m->piece;
    (void)worker;
    pick_elements(m->to + m->before[i] * size, m->before[i + 1] - m->before[i], m->from + at * size,
                  m->mask + at, length_of(m, i), m->size);
}

static bool is_line(PyArrayObject *a)
{
    return PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISNBO(PyArray_DESCR(a)->byteorder) &&
           npa_type_known(PyArray_TYPE(a)) && PyArray_NDIM(a) > 0 && PyArray_SIZE(a) > 0;
}

/* The reverse: eight elements at most, of which the bytes of `mask` that are not 0 are in. */
static inline unsigned bits_of(const char *mask)
{
    uint64_t eight, low = 0x7f7f7f7f7f7f7f7f;
    memcpy(&eight, mask, 8);
    eight = ((((eight & low) + low) | eight) & ~low) >> 7;
    return (unsigned)(eight * 0x0102040810204080 >> 56);
}

/* How many of the n elements are in, by eights, from here on: at least the first eight, at most
 * `most`. */
static int64_t run_of(const char *mask, int64_t n, int64_t most)
{
    int64_t run = 8, last = (n < most ? n : most) - 8;
    while (run <= last && bits_of(mask + run) == 255) {
        run += 8;
    }
    return run;
}

/* `from` holds as many elements as were in when they were counted; never more are read. */
static void put_elements(char *to, const char *from, int64_t count, const char *mask, int64_t n,
                         size_t size)
{
    const char *end = from + count * (int64_t)size;
    int64_t i = npa_expand(to, &from, end, mask, n, size);
#define PUT(type)                                                                                \
    for (; i + 8 <= n && from != end; i += 8) {                                                  \
        unsigned bits = bits_of(mask + i);                                                       \
        char *there = to + i * (int64_t)sizeof(type);                                            \
        if (bits == 255 && end - from >= (int64_t)(8 * sizeof(type))) {                          \
            int64_t run = run_of(mask + i, n - i, (end - from) / (int64_t)sizeof(type));         \
            memcpy(there, from, (size_t)run * sizeof(type));                                     \
            from += run * (int64_t)sizeof(type), i += run - 8, bits = 0;                         \
        }                                                                                        \
        for (; bits != 0 && from != end; bits &= bits - 1, from += sizeof(type)) {               \
            memcpy(there + (size_t)__builtin_ctz(bits) * sizeof(type), from, sizeof(type));      \
        }                                                                                        \
    }                                                                                            \
    break
    switch (size) {
    case 1: PUT(uint8_t);
    case 2: PUT(uint16_t);
    case 4: PUT(uint32_t);
    case 8: PUT(uint64_t);
    case 16: PUT(npy_cdouble);
    default: break;
    }
    for (; i < n && from != end; i++) {
        if (mask[i] != 0) {
            memcpy(to + i * (int64_t)size, from, size);
            from += size;
        }
    }
}

static void put_piece(void *context, int64_t i, int worker)
{
    masked *m = context;
    int64_t size = (int64_t)m->size, at = i * m->piece;
    (void)worker;
    put_elements(m->to + at * size, m->from + m->before[i] * size, m->before[i + 1] - m->before[i],
                 m->mask + at, length_of(m, i), m->size);
}

/* The same element wherever the mask is true; nothing else is written. */
#define FILL(type)                                                                                 \
    NPA_EACH_PROCESSOR static void fill_##type(type *to, const char *from, const char *mask,       \
                                               int64_t n)                                          \
    {                                                                                              \
        type x;                                                                                    \
        memcpy(&x, from, sizeof x);                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            if (mask[i]) {                                                                         \
                to[i] = x;                                                                         \
            }                                                                                      \
        }                                                                                          \
    }
FILL(uint8_t)
FILL(uint16_t)
FILL(uint32_t)
FILL(uint64_t)

static void fill_elements(char *to, const char *from, const char *mask, int64_t n, size_t size)
{
    switch ((uintptr_t)to % size == 0 ? size : 0) {
    case 1: fill_uint8_t((uint8_t *)to, from, mask, n); return;
    case 2: fill_uint16_t((uint16_t *)to, from, mask, n); return;
    case 4: fill_uint32_t((uint32_t *)to, from, mask, n); return;
    case 8: fill_uint64_t((uint64_t *)to, from, mask, n); return;
    default: break;
    }
    for (int64_t i = 0; i < n; i++) {
        if (mask[i] != 0) {
            memcpy(to + i * (int64_t)size, from, size);
        }
    }
}

static void fill_piece(void *context, int64_t i, int worker)
{
    masked *m = context;
    int64_t at = i * m->piece;
    (void)worker;
    fill_elements(m->to + at * (int64_t)m->size, m->from, m->mask + at, length_of(m, i), m->size);
}

static bool is_mask(PyObject *key)
{
    return (PyArray_CheckExact(key) || Py_IS_TYPE(key, npa_array_type)) &&
           PyArray_TYPE((PyArrayObject *)key) == NPY_BOOL;
}

/* Whether `mask`, in C order, covers the first axes of `a`, in C order. */
static bool covers(PyArrayObject *mask, PyArrayObject *a)
{
    int covered = PyArray_NDIM(mask);
    return is_line(a) && is_line(mask) && covered <= PyArray_NDIM(a) &&
           PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(mask), covered);
}

static int count(PyArrayObject *mask, masked *m)
{
    npa_opened o;
    if (npa_open(&o, &mask, 1, 0) < 0) {
        return -1;
    }
    *m = count_masked(o.at[0], PyArray_SIZE(mask), NPY_BOOL, 1);
    npa_close(&o);
    return 0;
}

/* The array that what the mask picks goes to. NULL: error set. */
static PyObject *make_target(PyArrayObject *a, PyArrayObject *mask, masked *m)
{
    int covered = PyArray_NDIM(mask), ndim = PyArray_NDIM(a);
    npy_intp dims[NPY_MAXDIMS];
    dims[0] = m->count;
    for (int i = covered; i < ndim; i++) {
        dims[i - covered + 1] = PyArray_DIM(a, i);
    }
    return npa_new_result(PyArray_TYPE(a), ndim - covered + 1, dims, &m->to);
}

void npa_pick_into(char *to, const char *from, const char *mask, int64_t n, size_t size)
{
    masked m = count_masked(mask, n, NPY_BOOL, 1);
    m.to = to, m.from = from, m.size = size;
    npa_pool_run(pick_piece, &m, pieces_of(&m), NULL);
}

/* As npa_pick, at once. */
static PyObject *pick_now(PyArrayObject *a, PyArrayObject *mask, masked *m)
{
    npa_opened o;
    PyObject *made = make_target(a, mask, m);
    PyArrayObject *all[2] = {a, mask};
    if (made != NULL && npa_open(&o, all, 2, 0) < 0) {
        Py_CLEAR(made);
    }
    if (made != NULL) {
        m->from = o.at[0], m->mask = o.at[1];
        m->size = (size_t)(PyArray_NBYTES(a) / m->n);
        npa_pool_run(pick_piece, m, pieces_of(m), NULL);
        npa_close(&o);
        npa_picked((PyArrayObject *)made);
    }
    return made;
}

int npa_pick(PyArrayObject *a, PyObject *key, PyObject **result)
{
    PyArrayObject *mask = (PyArrayObject *)key;
    PyObject *made = NULL;
    masked m;
    if (!is_mask(key) || !covers(mask, a)) {
        return 0;
    }
    int before = npa_now(NPA_IN_KERNELS), status = count(mask, &m);
    status = status == 0 ? npa_pick_later(a, mask, m.count, &made) : status;
    made = status == 0 ? pick_now(a, mask, &m) : made;
    npa_now(before);
    *result = status < 0 ? NULL : npa_adopted(made);
    return *result != NULL ? 1 : -1;
}

int npa_put(PyArrayObject *a, PyObject *key, PyObject *values)
{
    PyArrayObject *mask = (PyArrayObject *)key, *v = (PyArrayObject *)values;
    if (!is_mask(key) || !(PyArray_CheckExact(values) || Py_IS_TYPE(values, npa_array_type)) ||
        !covers(mask, a) || PyArray_TYPE(v) != PyArray_TYPE(a) || !is_line(v) ||
        !PyArray_ISWRITEABLE(a) || (PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) || !npa_apart(a, v) ||
        !npa_apart(a, mask)) {
        return 0;
    }
    int covered = PyArray_NDIM(mask), rest = PyArray_NDIM(a) - covered;
    if (PyArray_NDIM(v) != rest + 1 ||
        !PyArray_CompareLists(PyArray_DIMS(v) + 1, PyArray_DIMS(a) + covered, rest)) {
        return 0;
    }
    PyArrayObject *all[3] = {mask, v, a};
    npa_opened o;
    int later = npa_put_later(a, mask, v);
    if (later != 0) {
        return later;
    }
    if (npa_open(&o, all, 3, 4) < 0) {
        return -1;
    }
    int before = npa_now(NPA_IN_KERNELS);
    masked m = count_masked(o.at[0], PyArray_SIZE(mask), NPY_BOOL, 1);
    bool good = PyArray_DIM(v, 0) == m.count; /* else one for all, or NumPy's error */
    if (good) {
        m.from = o.at[1], m.to = o.at[2], m.size = (size_t)(PyArray_NBYTES(a) / m.n);
        npa_pool_run(put_piece, &m, pieces_of(&m), NULL);
    }
    npa_close(&o);
    npa_now(before);
    return good;
}

int npa_put_number(PyArrayObject *a, PyArrayObject *mask, const char *number)
{
    PyArrayObject *all[2] = {mask, a};
    npa_opened o;
    if (!covers(mask, a) || PyArray_NDIM(mask) != PyArray_NDIM(a) || !PyArray_ISWRITEABLE(a) ||
        (PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) || !npa_apart(a, mask)) {
        return 0;
    }
    if (npa_open(&o, all, 2, 2) < 0) {
        return -1;
    }
    int64_t n = PyArray_SIZE(mask), piece = (n + PIECES - 1) / PIECES;
    masked m = {.mask = o.at[0], .n = n, .piece = piece < PIECE ? PIECE : piece,
                .to = o.at[1], .from = number, .size = (size_t)PyArray_ITEMSIZE(a)};
    npa_pool_run(fill_piece, &m, pieces_of(&m), NULL);
    npa_close(&o);
    return 1;
}

/* --------------------------------------------------------------------------------------- places */

typedef struct {
    masked m;
    int ndim;
    const npy_intp *dims;
    npy_intp *to;
} places;

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
                to = put_eight(to, bits_of(mask + i + k), first + i + k);
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
    const masked *m = &p->m;
    int ndim = p->ndim;
    char room[BLOCK];
    npy_intp found[BLOCK], row[NPY_MAXDIMS];
    int64_t first = i * m->piece, last = first + length_of(m, i), length = p->dims[ndim - 1];
    npy_intp begin = first - first % length, left = first / length;
    npy_intp *to = p->to + m->before[i] * ndim, *end = p->to + m->before[i + 1] * ndim;
    (void)worker;
    for (int k = ndim - 2; k >= 0; k--) {
        row[k] = left % p->dims[k], left /= p->dims[k];
    }
    for (int64_t n; first < last && to != end; first += n) {
        n = last - first < BLOCK ? last - first : BLOCK;
        const char *mask = mask_of(m, first, n, room);
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
        PyObject *view = PyArray_NewFromDescr(Py_TYPE(all), PyArray_DescrFromType(NPY_INTP), 1, &n,
                                              &step, first, PyArray_FLAGS(all), NULL);
        if (view == NULL ||
            PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef((PyObject *)all)) < 0) {
            Py_XDECREF(view);
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, k, view);
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
        PyArray_SIZE(a) < LEAST || !is_line(a) || !PyArray_ISALIGNED(a) || npa_waits(a)) {
        return NULL;
    }
    places p = {.m = count_masked(PyArray_BYTES(a), PyArray_SIZE(a), PyArray_TYPE(a),
                                  (size_t)PyArray_ITEMSIZE(a)),
                .ndim = PyArray_NDIM(a),
                .dims = PyArray_DIMS(a)};
    npy_intp dims[2] = {p.m.count, p.ndim};
    find_set_bits();
    char *place;
    PyObject *made = npa_new_result(NPY_INTP, 2, dims, &place), *result = NULL;
    if (made != NULL) {
        p.to = (npy_intp *)place;
        npa_pool_run(places_of_piece, &p, p.m.count > 0 ? pieces_of(&p.m) : 0, NULL);
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
