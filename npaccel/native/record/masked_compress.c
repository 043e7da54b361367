/* masked_compress.c: array[mask], at once, for how many elements it has depends on values, so it
 * can't wait; and array[mask] = values, whose number has to be looked at.
 *
 * Both go through the mask's places in C order, a stretch of a row at a time (Note [Rows]). Where
 * the elements of a row lie side by side, runs of eight that are all in or all out go as one; else
 * each element is written and the place of the next one moved only if it was in, for a branch would
 * be guessed wrong. With the GIL. */
#include "record/pieces.h"
#include "record/record.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

typedef struct {
    npa_pieces pieces;
    const npa_mask_rows *rows;
    const char *mask;
    char *array; /* what is picked from, or put into */
    char *to;
    const char *from;
    size_t size; /* bytes of an element: of all that lies behind the mask's axes */
} masked;

/* ---------------------------------------------------------------------------------------- rows */

void npa_add_mask_axis(npa_mask_rows *r, int64_t n, int64_t by, int64_t step)
{
    int last = r->ndim - 1;
    if (last >= 0 && r->shape[last] == 1) {
        r->ndim--;
    } else if (last >= 0 && n == 1) {
        return;
    } else if (last >= 0 && r->by[last] == by * n && r->steps[last] == step * n) {
        r->shape[last] *= n, r->by[last] = by, r->steps[last] = step;
        return;
    }
    r->shape[r->ndim] = n, r->by[r->ndim] = by, r->steps[r->ndim] = step;
    r->ndim++;
}

/* Whether `mask` covers the first axes of `a`, of which the others lie side by side. */
static bool covers(PyArrayObject *mask, PyArrayObject *a, npa_mask_rows *r, size_t *size)
{
    int covered = PyArray_NDIM(mask), ndim = PyArray_NDIM(a);
    if (covered == 0 || covered > ndim || ndim > NPA_MAX_DIMS ||
        !npa_dtype_known(PyArray_DESCR(a)) ||
        PyArray_SIZE(a) == 0 ||
        !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(mask), covered)) {
        return false;
    }
    r->ndim = 0, *size = (size_t)npa_bytes_behind(a, covered);
    for (int i = 0; i < covered; i++) {
        npa_add_mask_axis(r, PyArray_DIM(a, i), PyArray_STRIDE(mask, i), PyArray_STRIDE(a, i));
    }
    return *size > 0;
}

/* Part of one row: at most n elements from place `first` on. */
typedef struct {
    int64_t n, by, step; /* between elements, in bytes */
    const char *mask;
    char *array;
} stretch;

static stretch stretch_at(const masked *m, int64_t first, int64_t n)
{
    const npa_mask_rows *r = m->rows;
    int last = r->ndim - 1;
    int64_t row = last > 0 ? first / r->shape[last] : 0, column = first - row * r->shape[last];
    int64_t mask = column * r->by[last], array = column * r->steps[last];
    for (int i = last - 1; i >= 0; i--) {
        int64_t next = i > 0 ? row / r->shape[i] : 0, k = row - next * r->shape[i];
        mask += k * r->by[i], array += k * r->steps[i];
        row = next;
    }
    return (stretch){.n = r->shape[last] - column < n ? r->shape[last] - column : n,
                     .by = r->by[last],
                     .step = r->steps[last],
                     .mask = m->mask + mask,
                     .array = m->array + array};
}

static bool side_by_side(const stretch *s, size_t size)
{
    return (s->by == 1 && s->step == (int64_t)size) || s->n == 1;
}

#define EACH_STRETCH(s, m, i)                                                                      \
    for (int64_t at = (i) * (m)->pieces.piece, end_ = at + npa_piece_length(&(m)->pieces, i);      \
         at < end_; at += (s).n)                                                                   \
        if ((s) = stretch_at(m, at, end_ - at), true)

/* --------------------------------------------------------------------------------------- count */

static void count_piece(void *context, int64_t i, int worker)
{
    masked *m = context;
    int64_t count = 0;
    stretch s;
    (void)worker;
    EACH_STRETCH (s, m, i) {
        if (s.by == 1) {
            count += npa_count_true(s.mask, s.n);
        } else {
            for (int64_t k = 0; k < s.n; k++) {
                count += s.mask[k * s.by] != 0;
            }
        }
    }
    m->pieces.before[i + 1] = count;
}

static masked count_masked(const char *mask, const npa_mask_rows *rows)
{
    int64_t n = 1;
    for (int i = 0; i < rows->ndim; i++) {
        n *= rows->shape[i];
    }
    masked m = {.pieces = npa_cut(n), .rows = rows, .mask = mask};
    npa_count_pieces(&m.pieces, count_piece, &m, n);
    return m;
}

/* ---------------------------------------------------------------------------------------- pick */

/* Where the next ones go. The mask may be written meanwhile: what is written never passes `end`. */
static char *pick_elements(char *to, char *end, const char *from, const char *mask, int64_t n,
                           size_t size)
{
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
    return to;
}

/* The same of elements that lie apart. */
static char *pick_apart(char *to, char *end, const stretch *s, size_t size)
{
#define PICK_APART(type)                                                                           \
    for (int64_t i = 0; i < s->n && to != end; i++) {                                              \
        memcpy(to, s->array + i * s->step, sizeof(type));                                          \
        to += s->mask[i * s->by] != 0 ? sizeof(type) : 0;                                          \
    }                                                                                              \
    break
    switch (size) {
    case 1: PICK_APART(uint8_t);
    case 2: PICK_APART(uint16_t);
    case 4: PICK_APART(uint32_t);
    case 8: PICK_APART(uint64_t);
    case 16: PICK_APART(npy_cdouble);
    default:
        for (int64_t i = 0; i < s->n && to != end; i++) {
            if (s->mask[i * s->by] != 0) {
                memcpy(to, s->array + i * s->step, size);
                to += size;
            }
        }
    }
    return to;
}

static void pick_piece(void *context, int64_t i, int worker)
{
    masked *m = context;
    int64_t size = (int64_t)m->size;
    char *to = m->to + m->pieces.before[i] * size, *end = m->to + m->pieces.before[i + 1] * size;
    stretch s;
    (void)worker;
    EACH_STRETCH (s, m, i) {
        to = side_by_side(&s, m->size) ? pick_elements(to, end, s.array, s.mask, s.n, m->size)
                                       : pick_apart(to, end, &s, m->size);
    }
    memset(to, 0, (size_t)(end - to));
}

/* ----------------------------------------------------------------------------------------- put */

/* How many of the n elements are in, by eights, from here on: at least the first eight, at most
 * `most`. */
static int64_t run_of(const char *mask, int64_t n, int64_t most)
{
    int64_t run = 8, last = (n < most ? n : most) - 8;
    while (run <= last && npa_bits_of(mask + run) == 255) {
        run += 8;
    }
    return run;
}

/* Where the next ones come from. `from` holds as many elements as were in when they were counted:
 * never are those behind `end` read. */
static const char *put_elements(char *to, const char *from, const char *end, const char *mask,
                                int64_t n, size_t size)
{
    int64_t i = npa_expand(to, &from, end, mask, n, size);
#define PUT(type)                                                                                \
    for (; i + 8 <= n && from != end; i += 8) {                                                  \
        unsigned bits = npa_bits_of(mask + i);                                                   \
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
    return from;
}

/* The same of elements that lie apart. */
static const char *put_apart(const stretch *s, const char *from, const char *end, size_t size)
{
#define PUT_APART(type)                                                                            \
    for (int64_t i = 0; i < s->n && from != end; i++) {                                            \
        if (s->mask[i * s->by] != 0) {                                                             \
            memcpy(s->array + i * s->step, from, sizeof(type));                                    \
            from += sizeof(type);                                                                  \
        }                                                                                          \
    }                                                                                              \
    break
    switch (size) {
    case 4: PUT_APART(uint32_t);
    case 8: PUT_APART(uint64_t);
    default:
        for (int64_t i = 0; i < s->n && from != end; i++) {
            if (s->mask[i * s->by] != 0) {
                memcpy(s->array + i * s->step, from, size);
                from += size;
            }
        }
    }
    return from;
}

static void put_piece(void *context, int64_t i, int worker)
{
    masked *m = context;
    int64_t size = (int64_t)m->size;
    const char *from = m->from + m->pieces.before[i] * size;
    const char *end = m->from + m->pieces.before[i + 1] * size;
    stretch s;
    (void)worker;
    EACH_STRETCH (s, m, i) {
        from = side_by_side(&s, m->size) ? put_elements(s.array, from, end, s.mask, s.n, m->size)
                                         : put_apart(&s, from, end, m->size);
    }
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
    stretch s;
    (void)worker;
    EACH_STRETCH (s, m, i) {
        if (side_by_side(&s, m->size)) {
            fill_elements(s.array, m->from, s.mask, s.n, m->size);
        } else {
            for (int64_t k = 0; k < s.n; k++) {
                if (s.mask[k * s.by] != 0) {
                    memcpy(s.array + k * s.step, m->from, m->size);
                }
            }
        }
    }
}

/* ---------------------------------------------------------------------------------------- calls */

static bool is_mask(PyObject *key)
{
    return (PyArray_CheckExact(key) || Py_IS_TYPE(key, npa_array_type)) &&
           PyArray_TYPE((PyArrayObject *)key) == NPY_BOOL;
}

/* What integers beside one mask show of the array, which the mask covers: a[m, 1], a[1, m]. NULL,
 * perhaps with an error: another key. */
static PyObject *shown_beside(PyArrayObject *a, PyObject *key, PyObject **mask)
{
    npy_intp dims[NPA_MAX_DIMS], strides[NPA_MAX_DIMS];
    char *first = PyArray_BYTES(a);
    int axis = 0, ndim = 0;
    *mask = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
        PyObject *part = PyTuple_GET_ITEM(key, i);
        int axes = *mask == NULL && is_mask(part) ? PyArray_NDIM((PyArrayObject *)part) : 0;
        if (axes > 0 && axis + axes <= PyArray_NDIM(a) && axes <= NPA_MAX_DIMS) {
            *mask = part, ndim = axes;
            memcpy(dims, PyArray_DIMS(a) + axis, sizeof *dims * (size_t)axes);
            memcpy(strides, PyArray_STRIDES(a) + axis, sizeof *strides * (size_t)axes);
            axis += axes;
            continue;
        }
        if (!PyLong_CheckExact(part) || axis == PyArray_NDIM(a)) {
            return NULL;
        }
        npy_intp extent = PyArray_DIM(a, axis), k = PyLong_AsSsize_t(part);
        if (PyErr_Occurred() || k < -extent || k >= extent) {
            PyErr_Clear(); /* NumPy says what it is */
            return NULL;
        }
        first += (k < 0 ? k + extent : k) * PyArray_STRIDE(a, axis), axis++;
    }
    if (*mask == NULL || axis != PyArray_NDIM(a)) {
        return NULL;
    }
    return npa_view_over(a, Py_TYPE(a), PyArray_DESCR(a), ndim, dims, strides, first,
                         PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE));
}

/* npa_pick or, with values, npa_put of what they show. */
static int beside_integers(PyArrayObject *a, PyObject *key, PyObject *values, PyObject **result)
{
    PyObject *mask, *view = shown_beside(a, key, &mask);
    int done = view == NULL     ? 0
               : values == NULL ? npa_pick((PyArrayObject *)view, mask, result)
                                : npa_put((PyArrayObject *)view, mask, values);
    Py_XDECREF(view);
    return done == 0 && PyErr_Occurred() ? -1 : done;
}

static int count(PyArrayObject *mask, const npa_mask_rows *rows, masked *m)
{
    npa_opened o;
    if (npa_open(&o, &mask, 1, 0) < 0) {
        return -1;
    }
    *m = count_masked(o.at[0], rows);
    npa_close(&o);
    return 0;
}

/* The array that what the mask picks goes to. NULL: error set. */
static PyObject *make_target(PyArrayObject *a, PyArrayObject *mask, masked *m)
{
    int covered = PyArray_NDIM(mask), ndim = PyArray_NDIM(a);
    npy_intp dims[NPY_MAXDIMS];
    dims[0] = m->pieces.count;
    for (int i = covered; i < ndim; i++) {
        dims[i - covered + 1] = PyArray_DIM(a, i);
    }
    return npa_new_result(PyArray_TYPE(a), ndim - covered + 1, dims, &m->to);
}

void npa_pick_into(char *to, const char *from, const char *mask, const npa_mask_rows *rows,
                   size_t size)
{
    masked m = count_masked(mask, rows);
    m.to = to, m.array = (char *)from, m.size = size;
    npa_pool_run(pick_piece, &m, npa_piece_count(&m.pieces), NULL);
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
        m->array = o.at[0], m->mask = o.at[1];
        npa_pool_run(pick_piece, m, npa_piece_count(&m->pieces), NULL);
        npa_close(&o);
        npa_picked((PyArrayObject *)made);
    }
    return made;
}

int npa_pick(PyArrayObject *a, PyObject *key, PyObject **result)
{
    PyArrayObject *mask = (PyArrayObject *)key;
    PyObject *made = NULL;
    npa_mask_rows rows;
    size_t size;
    masked m;
    if (PyTuple_CheckExact(key)) {
        return beside_integers(a, key, NULL, result);
    }
    if (!is_mask(key) || !covers(mask, a, &rows, &size)) {
        return 0;
    }
    int before = npa_now(NPA_IN_KERNELS), status = count(mask, &rows, &m);
    m.size = size;
    status = status == 0 ? npa_pick_later(a, mask, m.pieces.count, &made) : status;
    made = status == 0 ? pick_now(a, mask, &m) : made;
    npa_now(before);
    *result = status < 0 ? NULL : npa_adopted(made);
    return *result != NULL ? 1 : -1;
}

/* Whether it may be written where the mask is, as NumPy would do it. */
static bool is_open_to(PyArrayObject *a, PyArrayObject *mask)
{
    return PyArray_ISWRITEABLE(a) && !(PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) &&
           npa_apart(a, mask) && npa_shows_once(a);
}

int npa_put(PyArrayObject *a, PyObject *key, PyObject *values)
{
    PyArrayObject *mask = (PyArrayObject *)key, *v = (PyArrayObject *)values;
    npa_mask_rows rows;
    size_t size;
    if (PyTuple_CheckExact(key)) {
        return beside_integers(a, key, values, NULL);
    }
    if (!is_mask(key) || !(PyArray_CheckExact(values) || Py_IS_TYPE(values, npa_array_type)) ||
        !covers(mask, a, &rows, &size) || PyArray_TYPE(v) != PyArray_TYPE(a) ||
        !PyArray_IS_C_CONTIGUOUS(v) || !PyArray_ISNBO(PyArray_DESCR(v)->byteorder) ||
        PyArray_SIZE(v) == 0 || !is_open_to(a, mask) || !npa_apart(a, v)) {
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
    masked m = count_masked(o.at[0], &rows);
    bool good = PyArray_DIM(v, 0) == m.pieces.count; /* else one for all, or NumPy's error */
    if (good) {
        m.from = o.at[1], m.array = o.at[2], m.size = size;
        npa_pool_run(put_piece, &m, npa_piece_count(&m.pieces), NULL);
    }
    npa_close(&o);
    npa_now(before);
    return good;
}

int npa_put_number(PyArrayObject *a, PyArrayObject *mask, const char *number)
{
    PyArrayObject *all[2] = {mask, a};
    npa_mask_rows rows;
    npa_opened o;
    masked m;
    if (!covers(mask, a, &rows, &m.size) || PyArray_NDIM(mask) != PyArray_NDIM(a) ||
        !is_open_to(a, mask)) {
        return 0;
    }
    if (npa_open(&o, all, 2, 2) < 0) {
        return -1;
    }
    m.pieces = npa_cut(PyArray_SIZE(mask)), m.rows = &rows;
    m.mask = o.at[0], m.array = o.at[1], m.from = number;
    npa_pool_run(fill_piece, &m, npa_piece_count(&m.pieces), NULL);
    npa_close(&o);
    return 1;
}

/* Note [Rows]
 *
 * A mask over a view (`u[1:-1, 1:-1][m]`, `points[:, 0][m]`) covers axes that lie apart. Axes that
 * follow on each other in both, the mask and the array, are joined; the last one of what is left is
 * a row. Whole arrays are one row. A place in C order says which row and column it is of, so pieces
 * begin anywhere. */
