/* scatter.c: a[i] = v, a[i, j] = v, a.put(i, v) and ufunc.at(a, i, v), by integers, at once. See
 * Note [Parts].
 *
 * for each part of a (parallel):  for each block of indices:  their places; those in the part; v
 * goes there */
#include "functions/functions.h"
#include "functions/scatter.h"
#include "small/ways.h"

#include <fenv.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum {
    MOST_AXES = NPA_MOST_OPENED - 2,
    BLOCK = 1024,
    LEAST = 1 << 12,
    LEAST_SLOW = 64,
    LEAST_ROW = 32
};
enum { PIECE = 1 << 15, MANY = 1 << 16, MOST_THREADS = 8, FAR_BYTES = 1 << 20 };

/* Indices along one axis of the target, over the shape that all of them have together. */
typedef struct {
    PyArrayObject *array;
    int type, size;
    const char *data;
    npy_intp extent, step; /* of the target's axis: length; rows from one to the next */
    npy_intp strides[NPA_MAX_DIMS];
} axis;

typedef struct {
    int naxes, ndim;
    axis axes[MOST_AXES];
    npy_intp shape[NPA_MAX_DIMS], n;
    char *to;
    npy_intp rows, bytes; /* of the target: what an index picks, how long it is */
    const char *values;
    npy_intp step; /* from one value to the next: bytes of a row, or 0 */
    npa_put_function *put;
    bool ready; /* the indices are the places */
    bool far;   /* the target is larger than the second cache */
    int64_t threads; /* at most */
    atomic_int joined;       /* others that wait for a part each */
    int64_t parts;           /* of the target, from element `begun` on: */
    _Atomic int64_t begun;   /* -1: not yet */
    bool floating;
    atomic_int raised;
    int no_nan; /* a type whose NaN are NumPy's to meet; 0: none */
} job;

/* --------------------------------------------------------------------------------------- places */

NPA_EACH_PROCESSOR
static void add_places(const npy_intp *index, npy_intp n, npy_intp extent, npy_intp step,
                       int64_t *places)
{
    for (npy_intp i = 0; i < n; i++) {
        places[i] += (index[i] + ((index[i] >> 63) & extent)) * step;
    }
}

/* Of elements first to first + n, which are of one row of the indices; in `places` or where they
 * are. */
static const int64_t *find_places(const job *j, npy_intp first, npy_intp n, int64_t *places)
{
    npy_intp room[BLOCK], at[NPA_MAX_DIMS], left = first;
    if (j->ready) {
        return (const int64_t *)j->axes[0].data + first;
    }
    for (int i = j->ndim - 1; i >= 0; i--) {
        at[i] = left % j->shape[i], left /= j->shape[i];
    }
    memset(places, 0, sizeof *places * (size_t)n);
    for (const axis *a = j->axes; a < j->axes + j->naxes; a++) {
        const char *p = a->data;
        npy_intp stride = a->strides[j->ndim - 1];
        for (int i = 0; i < j->ndim; i++) {
            p += at[i] * a->strides[i];
        }
        bool ready = a->type == NPY_LONG && stride == sizeof(npy_intp);
        if (!ready) {
            npa_cast(a->type, p, stride, NPY_LONG, (char *)room, sizeof *room, n);
        }
        add_places(ready ? (const npy_intp *)p : room, n, a->extent, a->step, places);
    }
    return places;
}

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
    npy_intp length = j->shape[j->ndim - 1], n = length - first % length,
             count = n = n < BLOCK ? n : BLOCK;
    const int64_t *places = find_places(j, first, n, room);
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
    for (npy_intp first = 0; first < j->n;) {
        if (parts == 1 && atomic_load(&j->joined) > 0) {
            j->parts = parts = atomic_load(&j->joined) + 1;
            atomic_store(&j->begun, first);
        }
        first += run_block(j, first, 0, parts);
    }
    if (parts == 1) {
        atomic_store(&j->begun, j->n);
    }
}

static void join(job *j)
{
    int64_t part = atomic_load(&j->begun) < 0 ? atomic_fetch_add(&j->joined, 1) + 1 : 0;
    /* Task 0 was taken before this one: for a block at most */
    while (part > 0 && atomic_load(&j->begun) < 0) {
        npa_yield();
    }
    npy_intp first = part > 0 ? atomic_load(&j->begun) : j->n;
    while (first < j->n && part < j->parts) {
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

typedef struct {
    const axis *of;
    npy_intp n;
    atomic_int worst; /* as npa_bounds_of says */
} inspection;

static void inspect(void *context, int64_t piece, int worker)
{
    inspection *i = context;
    npy_intp first = piece * PIECE, n = i->n - first < PIECE ? i->n - first : PIECE,
             size = i->of->size;
    npa_indices line = {.type = i->of->type,
                        .size = i->of->size,
                        .ndim = 1,
                        .extent = i->of->extent,
                        .lengths = {n, size}};
    (void)worker;
    int found = npa_bounds_of(&line, i->of->data + first * size), was = atomic_load(&i->worst);
    while (found > was && !atomic_compare_exchange_weak(&i->worst, &was, found)) {
    }
}

/* With the arrays opened: false: some index is not of its axis, which NumPy says before it writes
 * anything. */
static bool all_inside(job *j)
{
    j->ready = j->naxes == 1 && j->ndim == 1 && j->axes[0].type == NPY_LONG &&
               j->axes[0].step == 1 && j->axes[0].strides[0] == sizeof(npy_intp);
    for (int k = 0; k < j->naxes; k++) {
        npa_indices of;
        const axis *a = &j->axes[k];
        inspection i = {.of = a, .n = PyArray_SIZE(a->array)};
        if (PyArray_IS_C_CONTIGUOUS(a->array)) {
            npa_pool_run(inspect, &i, (i.n + PIECE - 1) / PIECE, NULL);
        } else {
            i.worst = npa_indices_of(a->array, a->extent, &of) ? npa_bounds_of(&of, a->data) : 2;
        }
        if (i.worst > 1) {
            return false;
        }
        j->ready &= i.worst == 0;
    }
    return true;
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
    for (int k = 0; k < j->naxes; k++) {
        all[n++] = j->axes[k].array;
    }
    if (values != NULL) {
        all[n++] = values;
    }
    npa_opened o;
    if (npa_open(&o, all, n, 1) < 0) {
        return -1;
    }
    j->to = o.at[0];
    for (int k = 0; k < j->naxes; k++) {
        j->axes[k].data = o.at[k + 1];
    }
    j->values = values != NULL ? o.at[n - 1] : j->values;
    bool good = all_inside(j) &&
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

static bool is_usual(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return (PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type)) && PyArray_ISALIGNED(a) &&
           npa_small_type(PyArray_DESCR(a));
}

/* The shape of all indices together. False: they have none, or one whose rows are short. */
static bool find_shape(job *j)
{
    bool alike = true;
    for (int k = 0; k < j->naxes; k++) {
        int ndim = PyArray_NDIM(j->axes[k].array);
        j->ndim = ndim > j->ndim ? ndim : j->ndim;
    }
    if (j->ndim == 0 || j->ndim > NPA_MAX_DIMS) {
        return false;
    }
    j->n = 1;
    for (int i = 0; i < j->ndim; i++) {
        npy_intp length = 1;
        for (int k = 0; k < j->naxes; k++) {
            PyArrayObject *a = j->axes[k].array;
            int own = i - (j->ndim - PyArray_NDIM(a));
            npy_intp n = own < 0 ? 1 : PyArray_DIM(a, own);
            if (n != 1 && length != 1 && n != length) {
                return false;
            }
            length = n != 1 ? n : length;
            j->axes[k].strides[i] = n != 1 ? PyArray_STRIDE(a, own) : 0;
        }
        j->shape[i] = length, j->n *= length;
    }
    for (int k = 0; k < j->naxes; k++) {
        alike &= PyArray_SIZE(j->axes[k].array) == j->n &&
                 PyArray_IS_C_CONTIGUOUS(j->axes[k].array);
    }
    return alike || j->shape[j->ndim - 1] >= LEAST_ROW;
}

/* Indices that lie one behind the other are one row. */
static void merge_rows(job *j)
{
    bool alike = true;
    for (int k = 0; k < j->naxes; k++) {
        alike &= PyArray_SIZE(j->axes[k].array) == j->n &&
                 PyArray_IS_C_CONTIGUOUS(j->axes[k].array);
    }
    for (int k = 0; k < j->naxes && alike; k++) {
        j->axes[k].strides[0] = j->axes[k].size;
    }
    if (alike) {
        j->ndim = 1, j->shape[0] = j->n;
    }
}

static bool read_axis(axis *a, PyArrayObject *target, PyObject *o, npy_intp extent, npy_intp step)
{
    PyArrayObject *index = (PyArrayObject *)o;
    if (!is_usual(o) || !PyArray_ISINTEGER(index) ||
        npa_canonical(PyArray_TYPE(index)) == NPY_UINT64 || !npa_apart(target, index)) {
        return false;
    }
    *a = (axis){.array = index,
                .type = npa_canonical(PyArray_TYPE(index)),
                .size = (int)PyArray_ITEMSIZE(index),
                .extent = extent,
                .step = step};
    return true;
}

/* The indices of a key: one array, or a tuple of them for the first axes. */
static bool read_key(job *j, PyArrayObject *target, PyObject *key)
{
    bool tuple = PyTuple_CheckExact(key);
    j->naxes = tuple ? (int)PyTuple_GET_SIZE(key) : 1;
    if (j->naxes < 1 || j->naxes > MOST_AXES || j->naxes > PyArray_NDIM(target)) {
        return false;
    }
    j->rows = 1;
    for (int k = j->naxes - 1; k >= 0; k--) {
        PyObject *o = tuple ? PyTuple_GET_ITEM(key, k) : key;
        if (!read_axis(&j->axes[k], target, o, PyArray_DIM(target, k), j->rows)) {
            return false;
        }
        j->rows *= PyArray_DIM(target, k);
    }
    j->bytes = j->rows > 0 ? PyArray_NBYTES(target) / j->rows : 0;
    return j->rows > 0 && j->bytes > 0 && find_shape(j);
}

/* Whether its shape is that of the indices, and that of a row; it lies without gaps. */
static bool fits(const job *j, PyArrayObject *target, PyArrayObject *values)
{
    int rest = PyArray_NDIM(target) - j->naxes;
    return npa_same_dtype(PyArray_DESCR(values), PyArray_DESCR(target)) &&
           PyArray_IS_C_CONTIGUOUS(values) &&
           PyArray_NDIM(values) == j->ndim + rest &&
           PyArray_CompareLists(PyArray_DIMS(values), j->shape, j->ndim) &&
           PyArray_CompareLists(PyArray_DIMS(values) + j->ndim, PyArray_DIMS(target) + j->naxes,
                                rest) &&
           npa_apart(target, values);
}

/* How many threads may take part. */
static void cut(job *j, npy_intp item)
{
    bool cheap = j->bytes > item || npa_keeps_fast();
    j->far = j->rows * j->bytes > FAR_BYTES;
    j->threads = j->n < MANY || !j->far || !cheap ? 1
                 : npa_pool_size() < MOST_THREADS ? npa_pool_size()
                                                  : MOST_THREADS;
    j->begun = -1;
    merge_rows(j);
}

static bool is_target(PyArrayObject *a)
{
    return is_usual((PyObject *)a) && PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISWRITEABLE(a) &&
           PyArray_NDIM(a) > 0 && !(PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) && PyArray_SIZE(a) > 0;
}

int npa_scatter(PyArrayObject *target, PyObject *key, PyObject *value)
{
    job j = {0};
    _Alignas(16) char number[16];
    bool given = PyArray_Check(value);
    if (!is_target(target) || !read_key(&j, target, key) || j.n < LEAST) {
        return 0;
    }
    bool single = j.bytes == PyArray_ITEMSIZE(target);
    if (given ? !is_usual(value) || !fits(&j, target, (PyArrayObject *)value)
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
    if (npa_is_plain(o) && PyArray_TYPE(a) == type && is_usual(o)) {
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
        j.n < (o->indexed && j.naxes == 1 ? LEAST : LEAST_SLOW)) {
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
    job j = {.naxes = 1};
    _Alignas(16) char number[16];
    PyArrayObject *target = (PyArrayObject *)self;
    (void)what;
    if (!PyArray_Check(self) || !is_target(target) || !is_put(args, n, names) ||
        !read_axis(&j.axes[0], target, args[0], PyArray_SIZE(target), 1) || !find_shape(&j) ||
        j.n < LEAST) {
        return NULL;
    }
    j.rows = PyArray_SIZE(target), j.bytes = PyArray_ITEMSIZE(target), j.put = npa_put_of(j.bytes);
    PyArrayObject *values = PyArray_Check(args[1]) ? (PyArrayObject *)args[1] : NULL;
    bool good = values == NULL
                    ? npa_take_scalar(args[1], PyArray_TYPE(target), number)
                    : is_usual(args[1]) &&
                          npa_same_dtype(PyArray_DESCR(values), PyArray_DESCR(target)) &&
                          PyArray_IS_C_CONTIGUOUS(values) && PyArray_SIZE(values) == j.n &&
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
