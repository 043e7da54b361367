/* at.c: ufunc.at(rows, indices, values), where rows are long enough for an inner loop each, and
 * ufunc.reduceat. */
#include "functions/functions.h"
#include "small/ways.h"

#include <fenv.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

/* NumPy goes through all elements by an iterator, one call of the loop each, but where the target
 * is a vector. The same loop over a row does the same operations in the same order for each
 * element. */
typedef struct {
    char *rows;
    npy_intp count, bytes, columns; /* of rows; of one; its elements */
    const char *indices, *values;
    npy_intp index_step, value_step, n;
} job;

/* False: some index is not of a row, which NumPy says before it writes anything. */
static bool all_inside(const job *j)
{
    bool inside = true;
    for (npy_intp i = 0; i < j->n; i++) {
        npy_intp at;
        memcpy(&at, j->indices + i * j->index_step, sizeof at);
        inside &= at >= -j->count && at < j->count;
    }
    return inside;
}

static void run(const npa_way *w, const job *j)
{
    const npy_intp steps[3] = {w->in_size, w->in_size, w->out_size};
    for (npy_intp i = 0; i < j->n; i++) {
        npy_intp at;
        memcpy(&at, j->indices + i * j->index_step, sizeof at);
        char *row = j->rows + (at < 0 ? at + j->count : at) * j->bytes;
        char *args[3] = {row, (char *)j->values + i * j->value_step, row};
        w->loop(args, &j->columns, steps, w->data);
    }
}

static bool usual(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return npa_is_plain(o) && PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a) &&
           !(npa_waiting() && npa_is_pending(a));
}

/* Whether the rows of `values` are as those of the target, each without gaps. */
static bool same_rows(PyArrayObject *values, PyArrayObject *target, npy_intp n)
{
    npy_intp step = PyArray_ITEMSIZE(target);
    bool same = PyArray_NDIM(values) == PyArray_NDIM(target) && PyArray_DIM(values, 0) == n;
    for (int i = PyArray_NDIM(target) - 1; i > 0 && same; i--) {
        same = PyArray_DIM(values, i) == PyArray_DIM(target, i) &&
               PyArray_STRIDE(values, i) == step;
        step *= PyArray_DIM(target, i);
    }
    return same;
}

/* Whether a row's loop gives what single elements' do: of two zeros, or two NaNs, others choose as
 * it comes. */
static bool one_by_one(const PyUFuncObject *u, const npa_way *w)
{
    static const char *const names[] = {"add", "subtract", "multiply", "divide"};
    bool known = !PyTypeNum_ISFLOAT(w->type) && !PyTypeNum_ISCOMPLEX(w->type);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        known |= strcmp(u->name, names[i]) == 0;
    }
    return known && w->loop != NULL && w->exact && w->out == w->in;
}

bool npa_at_rows(PyUFuncObject *u, npa_exactness how, PyObject *const *args)
{
    PyArrayObject *target = (PyArrayObject *)args[0], *index = (PyArrayObject *)args[1],
                  *values = (PyArrayObject *)args[2];
    if (u->nin != 2 || u->nout != 1 || !usual(args[0]) || !usual(args[1]) || !usual(args[2]) ||
        PyArray_NDIM(target) < 2 || !PyArray_IS_C_CONTIGUOUS(target) ||
        !PyArray_ISWRITEABLE(target) || PyArray_SIZE(target) == 0 ||
        (PyArray_FLAGS(target) & NPA_WARN_ON_WRITE) || PyArray_NDIM(index) != 1 ||
        PyArray_TYPE(index) != NPY_INTP || !same_rows(values, target, PyArray_DIM(index, 0))) {
        return false;
    }
    const npa_way *w = npa_find_way(u, PyArray_TYPE(target), how);
    if (!one_by_one(u, w) || !npa_same_dtype(PyArray_DESCR(target), w->in) ||
        !npa_same_dtype(PyArray_DESCR(values), w->in) ||
        !npa_apart(target, values) || !npa_apart(target, index)) {
        return false;
    }
    npy_intp rows = PyArray_DIM(target, 0), columns = PyArray_SIZE(target) / rows;
    job j = {PyArray_BYTES(target),    rows,
             columns * w->in_size,     columns,
             PyArray_BYTES(index),     PyArray_BYTES(values),
             PyArray_STRIDE(index, 0), PyArray_STRIDE(values, 0),
             PyArray_DIM(index, 0)};
    size_t bytes = (size_t)PyArray_NBYTES(target);
    char *before = all_inside(&j) ? malloc(bytes) : NULL;
    if (before == NULL) {
        return false;
    }
    memcpy(before, j.rows, bytes);
    npa_clear_errors();
    run(w, &j);
    bool good = !npa_seen_errors();
    if (!good) {
        memcpy(j.rows, before, bytes); /* NumPy tells them */
    }
    free(before);
    return good;
}

/* ------------------------------------------------------------------------------------- reduceat */

enum { LEAST_REDUCED = 1 << 18, PART = 1 << 14 }; /* elements */

/* Stretches along one axis, of each line along it; the last one goes to its end. */
typedef struct {
    npa_way way;
    const char *from;
    char *to;
    const npy_intp *starts;
    /* length: of the axis, in elements; step: bytes from one to the next */
    npy_intp stretches, length, step;
    /* inner: lines that lie side by side; each: of a task, stretches of lines */
    npy_intp lines, inner, each;
    atomic_int raised;
} reduction;

/* Stretches of one line, as NumPy: the first element, and the loop over the others. */
static void reduce_line(const reduction *r, npy_intp line, npy_intp first, npy_intp end)
{
    npy_intp size = r->way.in_size, outer = line / r->inner, side = line % r->inner,
             next = r->inner * size;
    char *to = r->to + ((outer * r->stretches + first) * r->inner + side) * size;
    const char *from = r->from + (outer * r->length * r->inner + side) * size;
    const npy_intp steps[3] = {0, r->step, 0};
    for (npy_intp k = first; k < end; k++, to += next) {
        npy_intp start = r->starts[k],
                 left = (k + 1 < r->stretches ? r->starts[k + 1] : r->length) - start - 1;
        char *args[3] = {to, (char *)from + (start + 1) * r->step, to};
        if (size == 8) {
            memcpy(to, from + start * r->step, 8);
        } else {
            memcpy(to, from + start * r->step, (size_t)size);
        }
        if (left > 0) {
            r->way.loop(args, &left, steps, r->way.data);
        }
    }
}

static void reduce_some(void *context, int64_t task, int worker)
{
    reduction *r = context;
    npy_intp all = r->lines * r->stretches, i = (npy_intp)task * r->each,
             end = i + r->each < all ? i + r->each : all;
    (void)worker;
    npa_clear_errors();
    while (i < end) {
        npy_intp line = i / r->stretches, begin = line * r->stretches, until = begin + r->stretches;
        until = until < end ? until : end;
        reduce_line(r, line, i - begin, until - begin);
        i = until;
    }
    atomic_fetch_or(&r->raised, fetestexcept(FE_ALL_EXCEPT));
}

/* Of types that NumPy does not widen for it, and whose loops do as they are told. */
static bool reduces_here(const PyUFuncObject *u, int type)
{
    static const char *const sums[] = {"add", "multiply"}, *const others[] = {"maximum", "minimum",
                                                                              "bitwise_or",
                                                                              "bitwise_and"};
    bool real = PyTypeNum_ISFLOAT(type) && type != NPY_HALF,
         wide = real || PyTypeNum_ISCOMPLEX(type);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        if (strcmp(u->name, sums[i]) == 0) {
            return wide || (PyTypeNum_ISINTEGER(type) && npa_item_sizes[type] == sizeof(npy_long));
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(u->name, others[i]) == 0) {
            return PyTypeNum_ISINTEGER(type) || (real && i < 2);
        }
    }
    return false;
}

/* The axis that is given, or the first; -1: another call. */
static int axis_of(PyArrayObject *a, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool named = names != NULL && PyTuple_GET_SIZE(names) == 1 &&
                 PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "axis") == 0;
    if ((names != NULL && !named) || n + named > 3 || n < 2) {
        return -1;
    }
    long axis = n + named == 2 ? 0 : PyLong_CheckExact(args[2]) ? PyLong_AsLong(args[2]) : LONG_MIN;
    PyErr_Clear();
    axis += axis < 0 ? PyArray_NDIM(a) : 0;
    return axis >= 0 && axis < PyArray_NDIM(a) ? (int)axis : -1;
}

/* Where they begin, if all do within the axis. */
static PyArrayObject *starts_of(PyObject *o, npy_intp length)
{
    bool known = PyArray_CheckExact(o) ? PyArray_TYPE((PyArrayObject *)o) == NPY_INTP
                                       : npa_is_listed(o);
    PyArrayObject *starts =
        known ? (PyArrayObject *)PyArray_FROMANY(o, NPY_INTP, 1, 1, NPY_ARRAY_CARRAY_RO) : NULL;
    bool good = starts != NULL && PyArray_SIZE(starts) > 0;
    const npy_intp *at = good ? PyArray_DATA(starts) : NULL;
    for (npy_intp k = 0, n = good ? PyArray_SIZE(starts) : 0; k < n; k++) {
        good &= (size_t)at[k] < (size_t)length;
    }
    PyErr_Clear();
    if (!good) {
        Py_CLEAR(starts);
    }
    return starts;
}

static PyObject *reduce_all(reduction *r, PyArrayObject *a, int axis)
{
    npy_intp dims[NPA_MAX_DIMS], longest = r->length - r->starts[r->stretches - 1],
                                 elements = longest;
    char *place;
    for (npy_intp k = 0; k < r->stretches - 1; k++) {
        npy_intp length = r->starts[k + 1] - r->starts[k];
        elements += length > 0 ? length : 1;
        longest = length > longest ? length : longest;
    }
    /* Or one is most of them */
    if (elements * r->lines < LEAST_REDUCED || longest * 8 > elements * r->lines * 5) {
        return NULL;
    }
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        dims[i] = i == axis ? r->stretches : PyArray_DIM(a, i);
    }
    PyObject *made = npa_new_result(PyArray_TYPE(a), PyArray_NDIM(a), dims, &place);
    if (made != NULL) {
        r->to = place, r->each = PART * r->stretches / elements + 1;
        npa_pool_run(reduce_some, r, (r->stretches * r->lines + r->each - 1) / r->each, NULL);
        if (atomic_load(&r->raised) & ~FE_INEXACT) {
            Py_CLEAR(made); /* NumPy tells of it */
        }
    }
    return made;
}

PyObject *npa_reduceat(PyUFuncObject *u, npa_exactness how, PyObject *const *args, Py_ssize_t n,
                       PyObject *names)
{
    PyArrayObject *a = n >= 2 ? (PyArrayObject *)args[0] : NULL;
    if (a == NULL || !usual(args[0]) || PyArray_NDIM(a) == 0 || PyArray_NDIM(a) > NPA_MAX_DIMS ||
        !PyArray_IS_C_CONTIGUOUS(a) || PyArray_SIZE(a) < LEAST_REDUCED ||
        !npa_small_type(PyArray_DESCR(a)) || !reduces_here(u, PyArray_TYPE(a)) ||
        npa_touch(a, false) < 0) {
        return NULL;
    }
    int axis = axis_of(a, args, n, names);
    const npa_way *w = axis >= 0 ? npa_find_way(u, PyArray_TYPE(a), how) : NULL;
    if (w == NULL || w->loop == NULL || w->out != w->in ||
        !npa_same_dtype(PyArray_DESCR(a), w->in)) {
        return NULL;
    }
    reduction r = {.way = *w, .from = PyArray_BYTES(a), .length = PyArray_DIM(a, axis), .inner = 1,
                   .step = PyArray_STRIDE(a, axis)};
    for (int i = axis + 1; i < PyArray_NDIM(a); i++) {
        r.inner *= PyArray_DIM(a, i);
    }
    r.lines = PyArray_SIZE(a) / r.length;
    PyArrayObject *starts = starts_of(args[1], r.length);
    if (starts == NULL) {
        return NULL;
    }
    r.starts = PyArray_DATA(starts), r.stretches = PyArray_SIZE(starts);
    PyObject *made = reduce_all(&r, a, axis);
    Py_DECREF(starts);
    return made;
}
