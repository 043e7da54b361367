/* scatter.c: a[i] = v, a[i, j] = v, a.put(i, v) and ufunc.at(a, i, v), by integers, at once. See
 * Note [Parts].
 *
 * for each part of a (parallel):  for each block of indices:  their places; those in the part; v
 * goes there */
#include "functions/functions.h"
#include "functions/places.h"
#include "functions/scatter.h"
#include "small/ways.h"

#include <fenv.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { BLOCK = NPA_PLACES_AT_ONCE, LEAST_SLOW = 64 };
enum { MANY = 1 << 16, MOST_THREADS = 8, FAR_BYTES = 1 << 20 };

typedef struct {
    npa_places at;
    char *to;
    npy_intp rows, bytes; /* of the target: what an index picks, how long it is */
    const char *values;
    npy_intp step; /* from one value to the next: bytes of a row, or 0 */
    npa_put_function *put;
    bool far;   /* the target is larger than the second cache */
    int64_t threads; /* at most */
    atomic_int joined;       /* others that wait for a part each */
    int64_t parts;           /* of the target, from element `begun` on: */
    _Atomic int64_t begun;   /* -1: not yet */
    bool floating;
    atomic_int raised;
    int no_nan; /* a type whose NaN are NumPy's to meet; 0: none */
} job;

/* -------------------------------------------------------------------------------------- numbers */

#define ALL_NUMBERS(name, T)                                                                       \
    NPA_EACH_PROCESSOR static bool all_numbers_##name(const T *x, npy_intp n)                      \
    {                                                                                              \
        int nan = 0;                                                                               \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            nan |= x[i] != x[i];                                                                   \
        }                                                                                          \
        return nan == 0;                                                                           \
    }
ALL_NUMBERS(float, float)
ALL_NUMBERS(double, double)

/* -------------------------------------------------------------------------------------- running */

static void put_rows(const job *j, const int64_t *places, const int64_t *which, npy_intp n,
                     const char *values)
{
    for (npy_intp i = 0; i < n; i++) {
        memcpy(j->to + places[i] * j->bytes, values + (which == NULL ? i : which[i]) * j->step,
               (size_t)j->bytes);
    }
}

/* Elements from `first` to the end of their row, or as many as are done together; one part of what
 * they pick. */
static npy_intp run_block(const job *j, npy_intp first, int64_t part, int64_t parts)
{
    int64_t room[BLOCK], kept[BLOCK + NPA_KEPT_ROOM], which[BLOCK + NPA_KEPT_ROOM];
    npy_intp length = j->at.shape[j->at.ndim - 1], n = length - first % length,
             count = n = n < BLOCK ? n : BLOCK;
    const int64_t *places = npa_find_places(&j->at, first, n, room);
    if (parts > 1) {
        count = npa_keep_between(places, n, j->rows * part / parts, j->rows * (part + 1) / parts,
                                 kept, which);
        places = kept;
    }
    const char *values = j->values + first * j->step;
    if (j->put != NULL) {
        j->put(j->to, places, parts == 1 ? NULL : which, count, values, j->step, j->far);
    } else {
        put_rows(j, places, parts == 1 ? NULL : which, count, values);
    }
    return n;
}

/* All of the target, and the first part of it from where others have joined. */
static void lead(job *j)
{
    int64_t parts = 1;
    for (npy_intp first = 0; first < j->at.n;) {
        if (parts == 1 && atomic_load(&j->joined) > 0) {
            j->parts = parts = atomic_load(&j->joined) + 1;
            atomic_store(&j->begun, first);
        }
        first += run_block(j, first, 0, parts);
    }
    if (parts == 1) {
        atomic_store(&j->begun, j->at.n);
    }
}

static void join(job *j)
{
    int64_t part = atomic_load(&j->begun) < 0 ? atomic_fetch_add(&j->joined, 1) + 1 : 0;
    /* Task 0 was taken before this one: for a block at most */
    while (part > 0 && atomic_load(&j->begun) < 0) {
        npa_yield();
    }
    npy_intp first = part > 0 ? atomic_load(&j->begun) : j->at.n;
    while (first < j->at.n && part < j->parts) {
        first += run_block(j, first, part, j->parts);
    }
}

static void run_part(void *context, int64_t part, int worker)
{
    job *j = context;
    (void)worker;
    npa_clear_errors();
    if (part == 0) {
        lead(j);
    } else {
        join(j);
    }
    if (j->floating) {
        atomic_fetch_or(&j->raised, fetestexcept(FE_ALL_EXCEPT));
    }
}

/* With the arrays opened. */
static bool all_numbers(const job *j, npy_intp size, npy_intp values)
{
    switch (j->no_nan) {
    case NPY_FLOAT:
        return all_numbers_float((const float *)j->to, size) &&
               all_numbers_float((const float *)j->values, values);
    case NPY_DOUBLE:
        return all_numbers_double((const double *)j->to, size) &&
               all_numbers_double((const double *)j->values, values);
    default: return true;
    }
}

/* 1 done; 0 nothing was done; -1 error set. */
static int run(job *j, PyArrayObject *target, PyArrayObject *values)
{
    PyArrayObject *all[NPA_MOST_OPENED] = {target};
    int n = 1;
    for (int k = 0; k < j->at.naxes; k++) {
        all[n++] = j->at.axes[k].array;
    }
    if (values != NULL) {
        all[n++] = values;
    }
    npa_opened o;
    if (npa_open(&o, all, n, 1) < 0) {
        return -1;
    }
    j->to = o.at[0];
    for (int k = 0; k < j->at.naxes; k++) {
        j->at.axes[k].data = o.at[k + 1];
    }
    j->values = values != NULL ? o.at[n - 1] : j->values;
    bool good = npa_all_inside(&j->at) &&
                all_numbers(j, PyArray_SIZE(target), values != NULL ? PyArray_SIZE(values) : 1);
    if (good && j->threads == 1) {
        run_part(j, 0, 0);
    } else if (good) {
        npa_pool_run(run_part, j, j->threads, NULL);
    }
    npa_close(&o);
    return good;
}

/* ---------------------------------------------------------------------------------------- calls */

/* The indices of a key: one array, or a tuple of them for the first axes. */
static bool read_key(job *j, PyArrayObject *target, PyObject *key)
{
    npy_intp steps[NPA_MOST_PLACED];
    int naxes = PyTuple_CheckExact(key) ? (int)PyTuple_GET_SIZE(key) : 1;
    j->rows = 1;
    if (naxes > NPA_MOST_PLACED || naxes > PyArray_NDIM(target)) {
        return false;
    }
    for (int k = naxes - 1; k >= 0; k--) {
        steps[k] = j->rows;
        j->rows *= PyArray_DIM(target, k);
    }
    j->bytes = j->rows > 0 ? PyArray_NBYTES(target) / j->rows : 0;
    return j->rows > 0 && j->bytes > 0 && npa_read_places(&j->at, target, key, steps);
}

/* Whether its shape is that of the indices, and that of a row; it lies without gaps. */
static bool fits(const job *j, PyArrayObject *target, PyArrayObject *values)
{
    int rest = PyArray_NDIM(target) - j->at.naxes;
    return npa_same_dtype(PyArray_DESCR(values), PyArray_DESCR(target)) &&
           PyArray_IS_C_CONTIGUOUS(values) &&
           PyArray_NDIM(values) == j->at.ndim + rest &&
           PyArray_CompareLists(PyArray_DIMS(values), j->at.shape, j->at.ndim) &&
           PyArray_CompareLists(PyArray_DIMS(values) + j->at.ndim,
                                PyArray_DIMS(target) + j->at.naxes, rest) &&
           npa_apart(target, values);
}

/* How many threads may take part. */
static void cut(job *j, npy_intp item)
{
    bool cheap = j->bytes > item || npa_keeps_fast();
    j->far = j->rows * j->bytes > FAR_BYTES;
    j->threads = j->at.n < MANY || !j->far || !cheap ? 1
                 : npa_pool_size() < MOST_THREADS ? npa_pool_size()
                                                  : MOST_THREADS;
    j->begun = -1;
    npa_merge_rows(&j->at);
}

static bool is_target(PyArrayObject *a)
{
    return npa_usual_items((PyObject *)a) && PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISWRITEABLE(a) &&
           PyArray_NDIM(a) > 0 && !(PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) && PyArray_SIZE(a) > 0;
}

int npa_scatter(PyArrayObject *target, PyObject *key, PyObject *value)
{
    job j = {0};
    _Alignas(16) char number[16];
    bool given = PyArray_Check(value);
    if (!is_target(target) || !read_key(&j, target, key) || j.at.n < NPA_LEAST_PLACED) {
        return 0;
    }
    bool single = j.bytes == PyArray_ITEMSIZE(target);
    if (given ? !npa_usual_items(value) || !fits(&j, target, (PyArrayObject *)value)
              : !single || !npa_take_scalar(value, PyArray_TYPE(target), number)) {
        return 0;
    }
    j.put = single ? npa_put_of(j.bytes) : NULL;
    j.step = given ? j.bytes : 0, j.values = number;
    cut(&j, PyArray_ITEMSIZE(target));
    return j.put != NULL || !single ? run(&j, target, given ? (PyArrayObject *)value : NULL) : 0;
}

/* What `at` makes an array of, if NumPy casts that to the target's type by itself. */
static bool takes(PyObject *value, int type, char *number)
{
    bool single = PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
                  PyComplex_CheckExact(value) || PyArray_IsScalar(value, Number) ||
                  PyArray_IsScalar(value, Bool);
    PyArrayObject *a = single ? (PyArrayObject *)PyArray_FromAny(value, NULL, 0, 0, 0, NULL) : NULL;
    bool good = a != NULL && npa_type_known(PyArray_TYPE(a)) &&
                PyArray_CanCastSafely(PyArray_TYPE(a), type);
    PyObject *cast = good ? PyArray_FROMANY((PyObject *)a, type, 0, 0, NPY_ARRAY_CARRAY_RO) : NULL;
    if (cast != NULL) {
        memcpy(number, PyArray_DATA((PyArrayObject *)cast), (size_t)npa_item_sizes[type]);
    }
    good = cast != NULL;
    Py_XDECREF(cast);
    Py_XDECREF(a);
    PyErr_Clear();
    return good;
}

/* An array of the target's type, that NumPy casts to it by itself. NULL: another. */
static PyArrayObject *values_as(PyObject *o, int type)
{
    PyArrayObject *a = (PyArrayObject *)o;
    if (npa_is_plain(o) && PyArray_TYPE(a) == type && npa_usual_items(o)) {
        return (PyArrayObject *)Py_NewRef(o);
    }
    return npa_is_plain(o) ? npa_line_as(o, type) : NULL;
}

int npa_at_elements(PyUFuncObject *u, PyObject *const *args)
{
    job j = {0};
    _Alignas(16) char number[16];
    PyArrayObject *target = (PyArrayObject *)args[0], *values = NULL;
    const npa_put_operation *o = npa_put_operation_of(u->name);
    if (o == NULL || !npa_is_plain(args[0]) || !is_target(target)) {
        return 0;
    }
    int type = PyArray_TYPE(target), status = 0;
    j.put = npa_put_kind_of(o, type);
    if (j.put == NULL || !read_key(&j, target, args[1]) || j.bytes != PyArray_ITEMSIZE(target) ||
        j.at.n < (o->indexed && j.at.naxes == 1 ? NPA_LEAST_PLACED : LEAST_SLOW)) {
        return 0;
    }
    bool given = PyArray_Check(args[2]);
    values = given ? values_as(args[2], type) : NULL;
    if (given ? values != NULL && fits(&j, target, values) : takes(args[2], type, number)) {
        j.step = given ? j.bytes : 0, j.values = number;
        j.floating = PyArray_ISFLOAT(target) || PyArray_ISCOMPLEX(target);
        j.no_nan = o->extreme ? type : 0;
        cut(&j, j.bytes);
        status = run(&j, target, values);
    }
    Py_XDECREF(values);
    return status > 0 && npa_tell_errors(u, j.raised) < 0 ? -1 : status;
}

/* (indices, values, mode="raise") */
static bool is_put(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    bool usual = named == 0 ||
                 (named == 1 && n == 2 &&
                  PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "mode") == 0);
    return usual && (n + named == 2 || (n + named == 3 && PyUnicode_Check(args[2]) &&
                                        PyUnicode_CompareWithASCIIString(args[2], "raise") == 0));
}

PyObject *npa_put_flat(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                       PyObject *names)
{
    job j = {.at.naxes = 1};
    _Alignas(16) char number[16];
    PyArrayObject *target = (PyArrayObject *)self;
    (void)what;
    if (!PyArray_Check(self) || !is_target(target) || !is_put(args, n, names) ||
        !npa_read_axis(&j.at.axes[0], target, args[0], PyArray_SIZE(target), 1) ||
        !npa_find_shape(&j.at) ||
        j.at.n < NPA_LEAST_PLACED) {
        return NULL;
    }
    j.rows = PyArray_SIZE(target), j.bytes = PyArray_ITEMSIZE(target), j.put = npa_put_of(j.bytes);
    PyArrayObject *values = PyArray_Check(args[1]) ? (PyArrayObject *)args[1] : NULL;
    bool good = values == NULL
                    ? npa_take_scalar(args[1], PyArray_TYPE(target), number)
                    : npa_usual_items(args[1]) &&
                          npa_same_dtype(PyArray_DESCR(values), PyArray_DESCR(target)) &&
                          PyArray_IS_C_CONTIGUOUS(values) && PyArray_SIZE(values) == j.at.n &&
                          npa_apart(target, values);
    if (!good || j.put == NULL) {
        return NULL;
    }
    j.step = values != NULL ? j.bytes : 0, j.values = number;
    cut(&j, j.bytes);
    return run(&j, target, values) > 0 ? Py_NewRef(Py_None) : NULL;
}

/* Note [Parts]
 *
 * Where indices repeat, the last value stays, and floats are added in the order in which they come.
 * So threads take parts of the target, not of the indices: each goes through all indices and keeps
 * those that are in its part, in their order. That costs a third of a store that misses the second
 * cache, and is done where the processor can leave elements out without a branch, or rows are long.
 * One thread begins with all of the target; where the others are when they come, it is cut. So
 * nothing is lost where none comes. Of a target in the cache one does all.
 *
 * All indices are looked at before anything is written, as NumPy does: else an error would leave
 * half of it. */
