/* small_functions.c: the commonest functions and methods of NumPy's on small plain arrays, without
 * its Python code around them. See Note [Small functions] at the end. */
#include "small/small.h"
#include "small/ways.h"
#include <math.h>
#include <string.h>

struct npa_small_function {
    const char *name;
    PyObject *(*run)(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                     PyObject *names);
    int what;
    /* Of a fold: what may follow the array, how much of it in place; whether it is one of NumPy's
     * Python functions, to which np._NoValue is nothing. */
    const int8_t *words;
    int in_place;
    bool python;
};
typedef npa_small_function function;

/* ------------------------------------------------------------------------------------- folds */

enum { END, AXIS, DTYPE, OUT, KEEPDIMS, INITIAL, WHERE, DDOF, WORDS };
static PyObject *words[WORDS];
static const char *const spelt[WORDS] = {"",         "axis",    "dtype", "out",
                                         "keepdims", "initial", "where", "ddof"};
static const int8_t as_sum[] = {AXIS, DTYPE, OUT, KEEPDIMS, INITIAL, WHERE, END},
                    as_max[] = {AXIS, OUT, KEEPDIMS, INITIAL, WHERE, END},
                    as_any[] = {AXIS, OUT, KEEPDIMS, WHERE, END},
                    as_mean[] = {AXIS, DTYPE, OUT, KEEPDIMS, WHERE, END},
                    as_std[] = {AXIS, DTYPE, OUT, DDOF, KEEPDIMS, WHERE, END};

static bool read_axis(PyObject *value, int ndim, int *axis)
{
    int overflow = 0;
    long k = PyLong_CheckExact(value) ? PyLong_AsLongAndOverflow(value, &overflow) : ndim;
    k += k < 0 ? ndim : 0;
    *axis = (int)k;
    return !overflow && k >= 0 && k < ndim;
}

/* None is all of them. */
static bool read_axes(PyObject *value, int ndim, uint32_t *axes)
{
    PyObject *const *of = &value;
    Py_ssize_t n = 1;
    *axes = 0;
    if (ndim > NPA_SMALL_DIMS) {
        return false;
    }
    if (value == Py_None) {
        *axes = (1u << ndim) - 1;
        return true;
    }
    if (PyTuple_CheckExact(value)) {
        of = PySequence_Fast_ITEMS(value), n = PyTuple_GET_SIZE(value);
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        int axis;
        if (!read_axis(of[k], ndim, &axis) || *axes >> axis & 1) {
            return false;
        }
        *axes |= 1u << axis;
    }
    return n > 0;
}

/* What a word says. False: it is for NumPy. */
static bool read_word(const function *f, int word, PyObject *value, int ndim, npa_small_how *how)
{
    bool nothing = f->python && value == npa_no_value;
    int overflow = 0;
    switch (word) {
    case AXIS: return read_axes(value, ndim, &how->axes);
    case DTYPE: case OUT: return value == Py_None;
    case KEEPDIMS: how->keepdims = value == Py_True; return PyBool_Check(value) || nothing;
    case INITIAL: return nothing;
    case WHERE: return value == Py_True || nothing;
    default: /* DDOF */
        how->ddof = PyLong_CheckExact(value) ? PyLong_AsLongAndOverflow(value, &overflow) : -1;
        return !overflow && how->ddof >= 0;
    }
}

/* Where a word's place is. -1: it has none. */
static int place_of(const function *f, PyObject *name)
{
    int k = 0;
    while (f->words[k] != END && words[f->words[k]] != name) {
        k++;
    }
    return f->words[k] != END ? k : -1;
}

/* array.fold(...) or fold(array, ...) */
static PyObject *run_fold(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    npa_small_how how = {.op = (npa_small_op)f->what};
    read_axes(Py_None, PyArray_NDIM(a), &how.axes);
    if (n - 1 > f->in_place) {
        return NULL;
    }
    for (Py_ssize_t k = 1; k < n; k++) {
        if (!read_word(f, f->words[k - 1], args[k], PyArray_NDIM(a), &how)) {
            return NULL;
        }
    }
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        int place = place_of(f, PyTuple_GET_ITEM(names, k));
        if (place < n - 1 || !read_word(f, f->words[place], args[n + k], PyArray_NDIM(a), &how)) {
            return NULL;
        }
    }
    return npa_small_fold(a, &how);
}

PyObject *npa_small_reduce(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    const function f = {.what = npa_small_op_of(ufunc), .words = as_sum, .in_place = 6};
    if (f.what < 0 || n < 1 || !npa_is_plain(args[0]) ||
        !npa_small_folds((PyArrayObject *)args[0], (npa_small_op)f.what)) {
        return NULL;
    }
    bool axis = n > 1;
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        axis |= PyTuple_GET_ITEM(names, k) == words[AXIS];
    }
    if (axis) {
        return run_fold(&f, args, n, names);
    }
    /* Along the first axis, where none is given. */
    PyArrayObject *a = (PyArrayObject *)args[0];
    npa_small_how how = {.op = (npa_small_op)f.what, .axes = 1};
    return names == NULL ? npa_small_fold(a, &how) : NULL;
}

/* cumsum */
static PyObject *run_scan(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    return n == 1 && names == NULL && PyArray_NDIM((PyArrayObject *)args[0]) > 0
         ? npa_small_scan((PyArrayObject *)args[0]) : NULL;
}

static PyObject *run_place(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    PyObject *given = n > 1 || names != NULL ? args[1] : Py_None;
    int axis = NPY_RAVEL_AXIS;
    if (names != NULL &&
        (n > 1 || PyTuple_GET_SIZE(names) != 1 || PyTuple_GET_ITEM(names, 0) != words[AXIS])) {
        return NULL;
    }
    if (n > 2 || PyArray_SIZE(a) == 0 ||
        (given != Py_None && !read_axis(given, PyArray_NDIM(a), &axis))) {
        return NULL;
    }
    PyObject *place = f->what == NPA_MAX ? PyArray_ArgMax(a, axis, NULL)
                                         : PyArray_ArgMin(a, axis, NULL);
    return place != NULL ? PyArray_Return((PyArrayObject *)place) : NULL;
}

/* ------------------------------------------------------------------------------ new arrays */

/* Whether results are made of it as they are of a plain array in C order. */
static bool is_usual(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return npa_is_plain(o) && PyArray_NDIM(a) > 0 && PyArray_NDIM(a) <= NPA_SMALL_DIMS &&
           npa_small_type(PyArray_DESCR(a)) && PyArray_IS_C_CONTIGUOUS(a) && PyArray_SIZE(a) > 0 &&
           PyArray_ISALIGNED(a) && !(npa_waiting() && npa_is_pending(a));
}

static PyArrayObject *alike(PyArrayObject *a)
{
    return npa_small_new(PyArray_DESCR(a), PyArray_NDIM(a), PyArray_DIMS(a));
}

static PyObject *run_zeros(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *made =
        n == 1 && names == NULL && is_usual(args[0]) ? alike((PyArrayObject *)args[0]) : NULL;
    if (made != NULL) {
        memset(PyArray_DATA(made), 0, (size_t)PyArray_NBYTES(made));
    }
    return (PyObject *)made;
}

/* n times what is there first. */
static void repeat(char *data, size_t size, size_t n)
{
    size_t done = 1;
    while (done < n) {
        size_t more = done < n - done ? done : n - done;
        memcpy(data + done * size, data, more * size);
        done += more;
    }
}

static PyObject *filled(PyArrayObject *a, PyObject *value)
{
    char one[16];
    PyArrayObject *made = npa_take_scalar(value, PyArray_TYPE(a), one) ? alike(a) : NULL;
    if (made != NULL) {
        memcpy(PyArray_DATA(made), one, (size_t)PyArray_ITEMSIZE(a));
        repeat(PyArray_DATA(made), (size_t)PyArray_ITEMSIZE(a), (size_t)PyArray_SIZE(a));
    }
    return (PyObject *)made;
}

static PyObject *run_ones(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyObject *one = n == 1 && names == NULL && is_usual(args[0]) ? PyLong_FromLong(1) : NULL;
    PyObject *made = one != NULL ? filled((PyArrayObject *)args[0], one) : NULL;
    Py_XDECREF(one);
    return made;
}

static PyObject *run_full(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    return n == 2 && names == NULL && is_usual(args[0]) ? filled((PyArrayObject *)args[0], args[1])
                                                        : NULL;
}

/* --------------------------------------------------------------------------------- where, clip */

typedef struct {
    const char *data;
    size_t step;
    char number[16];
} choice;

/* The type of where's result: that of the arrays, or, without any, of Python's numbers. -1:
 * NumPy's */
static int chosen_type(PyObject *const *values, PyArrayObject *mask)
{
    int type = -1, numbers = -1;
    for (int k = 0; k < 2; k++) {
        PyArrayObject *a = (PyArrayObject *)values[k];
        if (npa_is_plain(values[k])) {
            if (!is_usual(values[k]) || PyArray_NDIM(a) != PyArray_NDIM(mask) ||
                !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(mask), PyArray_NDIM(a)) ||
                (type >= 0 && type != PyArray_TYPE(a))) {
                return -1;
            }
            type = PyArray_TYPE(a);
        } else if (PyFloat_CheckExact(values[k])) {
            numbers = NPY_DOUBLE;
        } else if (PyLong_CheckExact(values[k])) {
            numbers = numbers < 0 ? NPY_INTP : numbers;
        } else {
            return -1;
        }
    }
    return type >= 0 ? type : numbers;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif
#define CHOOSE(type)                                                                               \
    static inline __attribute__((always_inline)) void choose_steps_##type(                         \
        type *restrict to, const char *restrict mask, npy_intp n, const type *x, bool i,           \
        const type *y, bool k)                                                                     \
    {                                                                                              \
        for (npy_intp at = 0; at < n; at++) {                                                      \
            type v = x[i ? at : 0], w = y[k ? at : 0], all = (type)-(type)(mask[at] != 0);         \
            to[at] = (type)((v & all) | (w & (type)~all));                                         \
        }                                                                                          \
    }                                                                                              \
    static void choose_##type(void *to, const char *mask, npy_intp n, const choice *of)            \
    {                                                                                              \
        const type *x = (const type *)(const void *)of[0].data;                                    \
        const type *y = (const type *)(const void *)of[1].data;                                    \
        switch ((of[0].step != 0) * 2 + (of[1].step != 0)) {                                       \
        case 0: choose_steps_##type(to, mask, n, x, false, y, false); break;                       \
        case 1: choose_steps_##type(to, mask, n, x, false, y, true); break;                        \
        case 2: choose_steps_##type(to, mask, n, x, true, y, false); break;                        \
        default: choose_steps_##type(to, mask, n, x, true, y, true);                               \
        }                                                                                          \
    }
CHOOSE(uint8_t)
CHOOSE(uint16_t)
CHOOSE(uint32_t)
CHOOSE(uint64_t)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

static void choose(char *to, const char *mask, npy_intp n, const choice *of, size_t size)
{
    switch (size) {
    case 1: choose_uint8_t(to, mask, n, of); break;
    case 2: choose_uint16_t(to, mask, n, of); break;
    case 4: choose_uint32_t(to, mask, n, of); break;
    case 8: choose_uint64_t(to, mask, n, of); break;
    default:
        for (npy_intp i = 0; i < n; i++) {
            const choice *from = &of[mask[i] == 0];
            memcpy(to + (size_t)i * size, from->data + (size_t)i * from->step, size);
        }
    }
}

/* where(mask, x, y) with arrays of one shape and type, and numbers */
static PyObject *run_where(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *mask = (PyArrayObject *)args[0];
    choice of[2];
    if (n != 3 || names != NULL || !is_usual(args[0]) || PyArray_TYPE(mask) != NPY_BOOL) {
        return NULL;
    }
    int type = chosen_type(args + 1, mask);
    if (type < 0) {
        return NULL;
    }
    PyArray_Descr *descr = PyArray_DescrFromType(type);
    for (int k = 0; k < 2; k++) {
        bool array = npa_is_plain(args[k + 1]);
        if (!array && !npa_take_scalar(args[k + 1], type, of[k].number)) {
            Py_DECREF(descr);
            return NULL;
        }
        of[k].data = array ? PyArray_DATA((PyArrayObject *)args[k + 1]) : of[k].number;
        of[k].step = array ? (size_t)PyDataType_ELSIZE(descr) : 0;
    }
    PyArrayObject *made =
        !npa_is_large((size_t)PyArray_SIZE(mask) * (size_t)PyDataType_ELSIZE(descr))
            ? npa_small_new(descr, PyArray_NDIM(mask), PyArray_DIMS(mask))
            : NULL;
    if (made != NULL) {
        choose(PyArray_DATA(made), PyArray_DATA(mask), PyArray_SIZE(mask), of,
               (size_t)PyDataType_ELSIZE(descr));
    }
    Py_DECREF(descr);
    return (PyObject *)made;
}

enum { CLIP, LOWER, UPPER, DIFFERENCE, UNEQUAL, PRODUCT, EQUAL, UFUNCS };
static const char *const ufunc_names[UFUNCS] = {"clip",      "maximum",  "minimum", "subtract",
                                                "not_equal", "multiply", "equal"};
static PyUFuncObject *ufuncs[UFUNCS];
static npa_exactness exact[UFUNCS];

void npa_small_ufunc(PyUFuncObject *u, npa_exactness how)
{
    for (int i = 0; i < UFUNCS; i++) {
        if (strcmp(ufunc_names[i], u->name) == 0) {
            ufuncs[i] = u, exact[i] = how;
        }
    }
    npa_small_fold_ufunc(u, how);
    npa_small_product_ufunc(u);
}

/* clip(a, low, high), either of which may be None */
static PyObject *run_clip(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    if (n != 3 || names != NULL || (args[1] == Py_None && args[2] == Py_None)) {
        return NULL;
    }
    int which = args[1] == Py_None ? UPPER : args[2] == Py_None ? LOWER : CLIP;
    PyObject *given[3] = {args[0], which == UPPER ? args[2] : args[1], args[2]};
    return ufuncs[which] != NULL
               ? npa_small_call(ufuncs[which], given, which == CLIP ? 3 : 2, exact[which])
               : NULL;
}

/* ------------------------------------------------------------------------------ parts and pairs */

/* a[1:] - a[:-1] along an axis, the last one if none is given */
static PyObject *run_diff(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    npa_space s = {.nargs = 3, .ndim = PyArray_NDIM(a)};
    int axis = s.ndim - 1;
    if (n != 1 || !is_usual(args[0])) {
        return NULL;
    }
    if (names != NULL &&
        (PyTuple_GET_SIZE(names) != 1 || PyTuple_GET_ITEM(names, 0) != words[AXIS] ||
         !read_axis(args[1], s.ndim, &axis))) {
        return NULL;
    }
    int which = PyArray_TYPE(a) == NPY_BOOL ? UNEQUAL : DIFFERENCE;
    const npa_way *w =
        ufuncs[which] != NULL ? npa_find_way(ufuncs[which], PyArray_TYPE(a), exact[which]) : NULL;
    if (w == NULL || w->loop == NULL || !npa_is_simple(a, w) || PyArray_DIM(a, axis) < 2) {
        return NULL;
    }
    npa_find_steps(&s, 1, a);
    memcpy(s.shape, PyArray_DIMS(a), sizeof *s.shape * (size_t)s.ndim);
    s.shape[axis]--;
    s.of[0] = s.of[1];
    s.of[0].data += PyArray_STRIDE(a, axis);
    PyArrayObject *made = npa_small_new(w->out, s.ndim, s.shape);
    if (made != NULL) {
        npa_find_steps(&s, 2, made);
        npa_merge_axes(&s);
        if ((!w->exact && s.ndim > 1) || !npa_run_quietly(w, &s)) {
            Py_CLEAR(made);
        }
    }
    return (PyObject *)made;
}

/* outer(a, b) of vectors */
static PyObject *run_outer(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    if (n != 2 || names != NULL || !is_usual(args[0]) || !is_usual(args[1]) ||
        ufuncs[PRODUCT] == NULL) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0], *b = (PyArrayObject *)args[1];
    const npa_way *w = npa_find_way(ufuncs[PRODUCT], PyArray_TYPE(a), exact[PRODUCT]);
    if (PyArray_NDIM(a) != 1 || PyArray_NDIM(b) != 1 || w->loop == NULL || !w->exact ||
        !npa_is_simple(a, w) || !npa_is_simple(b, w)) {
        return NULL;
    }
    npa_space s = {.ndim = 2, .nargs = 3, .shape = {PyArray_SIZE(a), PyArray_SIZE(b)}};
    if (npa_is_large((size_t)(s.shape[0] * s.shape[1] * w->out_size))) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(w->out, 2, s.shape);
    if (made != NULL) {
        s.of[0] = (npa_lay){PyArray_DATA(a), {w->in_size, 0}};
        s.of[1] = (npa_lay){PyArray_DATA(b), {0, w->in_size}};
        s.of[2] = (npa_lay){PyArray_DATA(made), {s.shape[1] * w->out_size, w->out_size}};
        if (!npa_run_quietly(w, &s)) {
            Py_CLEAR(made);
        }
    }
    return (PyObject *)made;
}

/* array_equal(a, b) of arrays of one type and shape */
static PyObject *run_equal(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    if (n != 2 || names != NULL || !is_usual(args[0]) || !is_usual(args[1]) ||
        ufuncs[EQUAL] == NULL ||
        !PyArray_SAMESHAPE((PyArrayObject *)args[0], (PyArrayObject *)args[1])) {
        return NULL;
    }
    PyArrayObject *same = (PyArrayObject *)npa_small_call(ufuncs[EQUAL], args, 2, exact[EQUAL]);
    if (same == NULL) {
        return NULL;
    }
    bool all = memchr(PyArray_DATA(same), 0, (size_t)PyArray_SIZE(same)) == NULL;
    Py_DECREF(same);
    return PyBool_FromLong(all);
}

/* dot(a, b) */
static PyObject *run_dot(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    char product[16];
    return n == 2 && names == NULL && npa_is_plain(args[1]) &&
                   npa_multiply_vectors((PyArrayObject *)args[0], (PyArrayObject *)args[1], product)
               ? PyArray_Scalar(product, PyArray_DESCR((PyArrayObject *)args[0]), NULL) : NULL;
}

/* norm(a) of a vector of floats: the root of its product with itself */
static PyObject *run_norm(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    double d;
    float s;
    void *product = PyArray_TYPE(a) == NPY_DOUBLE  ? (void *)&d
                    : PyArray_TYPE(a) == NPY_FLOAT ? (void *)&s
                                                   : NULL;
    if (n != 1 || names != NULL || product == NULL || !is_usual(args[0]) ||
        !npa_multiply_vectors(a, a, product)) {
        return NULL;
    }
    if (product == &d) {
        d = sqrt(d);
    } else {
        s = sqrtf(s);
    }
    return PyArray_Scalar(product, PyArray_DESCR(a), NULL);
}

/* roll(a, shift) of a vector: a view of the whole of a new array, as NumPy's is */
static PyObject *run_roll(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    int overflow = 0;
    PyArrayObject *a = (PyArrayObject *)args[0];
    if (n != 2 || names != NULL || !PyLong_CheckExact(args[1]) || !is_usual(args[0]) ||
        PyArray_NDIM(a) != 1) {
        return NULL;
    }
    long shift = PyLong_AsLongAndOverflow(args[1], &overflow);
    PyArrayObject *made = overflow ? NULL : alike(a);
    if (made == NULL) {
        return NULL;
    }
    npy_intp size = PyArray_SIZE(a), item = PyArray_ITEMSIZE(a),
             by = shift % size + (shift % size < 0 ? size : 0);
    char *to = PyArray_DATA(made), *from = PyArray_DATA(a);
    memcpy(to + by * item, from, (size_t)((size - by) * item));
    memcpy(to, from + (size - by) * item, (size_t)(by * item));
    PyObject *view = PyArray_View(made, NULL, NULL);
    Py_DECREF(made);
    return view;
}

/* The items of a list or tuple of usual arrays that have one type, and one shape but for that
 * axis. */
static Py_ssize_t items_of(PyObject *given, int varies, PyArrayObject *const **items)
{
    Py_ssize_t n = PyList_CheckExact(given) || PyTuple_CheckExact(given) ? Py_SIZE(given) : 0;
    PyArrayObject *const *of = n > 0 ? (PyArrayObject *const *)(void *)PySequence_Fast_ITEMS(given)
                                     : NULL;
    for (Py_ssize_t k = 0; k < n; k++) {
        if (!is_usual((PyObject *)of[k]) || PyArray_DESCR(of[k]) != PyArray_DESCR(of[0]) ||
            PyArray_NDIM(of[k]) != PyArray_NDIM(of[0])) {
            return 0;
        }
        for (int i = 0; i < PyArray_NDIM(of[0]); i++) {
            if ((i != varies && PyArray_DIM(of[k], i) != PyArray_DIM(of[0], i)) ||
                PyArray_DIM(of[k], i) == 1) {
                return 0; /* with an axis of one element, orders are ambiguous */
            }
        }
    }
    *items = of;
    return n;
}

/* One after the other along an axis; stacked: along a new one before it. */
static PyObject *joined(PyArrayObject *const *items, Py_ssize_t n, int axis, bool stacked)
{
    npy_intp shape[NPA_SMALL_DIMS + 1], outer = 1;
    int ndim = PyArray_NDIM(items[0]), k = 0;
    size_t bytes = 0;
    for (int i = 0; i < ndim; i++) {
        if (i == axis && stacked) {
            shape[k++] = n;
        }
        shape[k++] = PyArray_DIM(items[0], i);
        outer *= i < axis ? PyArray_DIM(items[0], i) : 1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        bytes += (size_t)PyArray_NBYTES(items[i]);
        shape[axis] += stacked || i == 0 ? 0 : PyArray_DIM(items[i], axis);
    }
    PyArrayObject *made = !npa_is_large(bytes) && k <= NPA_SMALL_DIMS
                        ? npa_small_new(PyArray_DESCR(items[0]), k, shape) : NULL;
    char *to = made != NULL ? PyArray_DATA(made) : NULL;
    for (npy_intp o = 0; made != NULL && o < outer; o++) {
        for (Py_ssize_t i = 0; i < n; i++) {
            size_t part = (size_t)(PyArray_NBYTES(items[i]) / outer);
            memcpy(to, PyArray_BYTES(items[i]) + (size_t)o * part, part);
            to += part;
        }
    }
    return (PyObject *)made;
}

/* -------------------------------------------------------------------------- copies, other types */

static PyObject *run_copy(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    PyArrayObject *made = n == 1 && names == NULL && is_usual(args[0]) ? alike(a) : NULL;
    if (made != NULL) {
        memcpy(PyArray_DATA(made), PyArray_DATA(a), (size_t)PyArray_NBYTES(a));
    }
    return (PyObject *)made;
}

/* The type that a dtype means which is no string, nor anything else that has to be looked up; -1:
 * none. */
static int type_of(PyObject *o)
{
    static const int types[] = {NPY_DOUBLE, NPY_FLOAT, NPY_LONG, NPY_INT, NPY_UBYTE, NPY_BOOL};
    if (o == (PyObject *)&PyFloat_Type) {
        return NPY_DOUBLE;
    }
    if (o == (PyObject *)&PyLong_Type) {
        return NPY_LONG;
    }
    if (o == (PyObject *)&PyBool_Type) {
        return NPY_BOOL;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        PyArray_Descr *d = PyArray_DescrFromType(types[i]);
        bool found = o == (PyObject *)d || o == (PyObject *)d->typeobj;
        Py_DECREF(d); /* it lives on in NumPy */
        if (found) {
            return types[i];
        }
    }
    return -1;
}

/* a.astype(type), of real numbers: what can't be converted is told by NumPy */
static PyObject *run_cast(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0], *made;
    int from = PyArray_TYPE(a), to = n == 2 && names == NULL ? type_of(args[1]) : -1;
    if (to < 0 || !is_usual(args[0]) || PyTypeNum_ISCOMPLEX(from) ||
        sizeof(long) != sizeof(npy_intp)) {
        return NULL;
    }
    if (from == to) {
        return run_copy(f, args, 1, NULL);
    }
    PyArray_Descr *descr = PyArray_DescrFromType(to);
    made = npa_small_new(descr, PyArray_NDIM(a), PyArray_DIMS(a));
    if (made != NULL) {
        npa_clear_errors();
        npa_cast(from, PyArray_DATA(a), PyArray_ITEMSIZE(a), to, PyArray_DATA(made),
                 PyDataType_ELSIZE(descr), PyArray_SIZE(a));
        if (npa_seen_errors()) {
            Py_CLEAR(made);
        }
    }
    Py_DECREF(descr);
    return (PyObject *)made;
}

/* Extents: integers, or one tuple or list of such, none of them 0; the one that is -1 is what is
 * left of `size` elements (0: it may not be). */
static int read_shape(PyObject *const *args, Py_ssize_t n, npy_intp size, npy_intp *shape)
{
    npy_intp points = 1;
    int open = -1;
    if (n == 1 && PyTuple_CheckExact(args[0])) {
        n = PyTuple_GET_SIZE(args[0]), args = &PyTuple_GET_ITEM(args[0], 0);
    }
    if (n < 1 || n > NPA_SMALL_DIMS) {
        return -1;
    }
    for (int k = 0; k < (int)n; k++) {
        int overflow = 1;
        long long extent =
            PyLong_CheckExact(args[k]) ? PyLong_AsLongLongAndOverflow(args[k], &overflow) : 0;
        if (extent == -1 && !overflow && open < 0) {
            open = k;
            extent = 1;
        }
        if (overflow || extent <= 0 || __builtin_mul_overflow(points, (npy_intp)extent, &points)) {
            return -1;
        }
        shape[k] = (npy_intp)extent;
    }
    if (open >= 0) {
        shape[open] = size / points;
        points *= shape[open];
    }
    return size == 0 ? (open < 0 ? (int)n : -1) : points == size ? (int)n : -1;
}

/* a.reshape(...) */
static PyObject *run_reshape(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names)
{
    (void)f;
    npy_intp shape[NPA_SMALL_DIMS], strides[NPA_SMALL_DIMS];
    PyArrayObject *a = (PyArrayObject *)args[0];
    int ndim = names == NULL && is_usual(args[0])
                   ? read_shape(args + 1, n - 1, PyArray_SIZE(a), shape)
                   : -1;
    npy_intp step = PyArray_ITEMSIZE(a);
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= shape[i];
    }
    size_t bytes = (size_t)(ndim > 0 ? ndim : 0) * sizeof(npy_intp);
    if (ndim == PyArray_NDIM(a) && memcmp(shape, PyArray_DIMS(a), bytes) == 0 &&
        memcmp(strides, PyArray_STRIDES(a), bytes) != 0) {
        /* Of axes of one element: NumPy keeps what they are, if no extent was left open */
        return NULL;
    }
    return ndim > 0 ? npa_small_view(a, ndim, shape, strides, PyArray_DATA(a)) : NULL;
}

/* a.ravel() */
static PyObject *run_ravel(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    if (n != 1 || names != NULL || !is_usual(args[0])) {
        return NULL;
    }
    npy_intp size = PyArray_SIZE(a), step = PyArray_ITEMSIZE(a);
    return npa_small_view(a, 1, &size, &step, PyArray_DATA(a));
}

enum { EMPTY, ZEROS };

/* zeros(shape), empty(shape) of doubles */
static PyObject *run_new(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    npy_intp shape[NPA_SMALL_DIMS], points = 1;
    int ndim = n == 1 && names == NULL ? read_shape(args, 1, 0, shape) : -1;
    for (int i = 0; i < ndim; i++) {
        points *= shape[i];
    }
    if (ndim < 1 || npa_is_large((size_t)points * sizeof(double))) {
        return NULL;
    }
    PyArray_Descr *descr = PyArray_DescrFromType(NPY_DOUBLE);
    PyArrayObject *made = npa_small_new(descr, ndim, shape);
    if (made != NULL && f->what == ZEROS) {
        memset(PyArray_DATA(made), 0, (size_t)points * sizeof(double));
    }
    Py_DECREF(descr);
    return (PyObject *)made;
}

/* ------------------------------------------------------------------------------------ joining */

enum { CONCATENATE, STACK, VSTACK, HSTACK };

static PyObject *run_join(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool own = f->what <= STACK; /* it has an axis */
    PyObject *axis = n == 2 ? args[1] : NULL;
    if (names != NULL && own && n == 1 && PyTuple_GET_SIZE(names) == 1 &&
        PyTuple_GET_ITEM(names, 0) == words[AXIS]) {
        axis = args[1], names = NULL;
    }
    if (names != NULL || n > 1 + own ||
        !(PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0])) || Py_SIZE(args[0]) == 0 ||
        !npa_is_plain(PySequence_Fast_ITEMS(args[0])[0])) {
        return NULL;
    }
    int ndim = PyArray_NDIM((PyArrayObject *)PySequence_Fast_ITEMS(args[0])[0]), along = 0;
    bool stacked = f->what == STACK || (f->what == VSTACK && ndim == 1);
    if (axis != NULL && !read_axis(axis, ndim + stacked, &along)) {
        return NULL;
    }
    along = f->what == HSTACK && ndim > 1 ? 1 : along;
    PyArrayObject *const *items;
    Py_ssize_t count = along < ndim ? items_of(args[0], stacked ? -1 : along, &items) : 0;
    return count > 0 ? joined(items, count, along, stacked) : NULL;
}

/* ------------------------------------------------------------------------------------ the table */

#define FOLD(name, what, words, in_place)                                                          \
    {name, run_fold, what, words, in_place, true},                                                 \
    { "ndarray." name, run_fold, what, words, in_place, false }
#define OTHER(name, what, run) {name, run, what, NULL, 0, false}
static const function functions[] = {
    FOLD("sum", NPA_SUM, as_sum, 6),
    FOLD("prod", NPA_PROD, as_sum, 6),
    FOLD("max", NPA_MAX, as_max, 5),
    FOLD("min", NPA_MIN, as_max, 5),
    FOLD("amax", NPA_MAX, as_max, 5),
    FOLD("amin", NPA_MIN, as_max, 5),
    FOLD("any", NPA_ANY, as_any, 1),
    FOLD("all", NPA_ALL, as_any, 1),
    FOLD("mean", NPA_MEAN, as_mean, 4),
    FOLD("var", NPA_VAR, as_std, 5),
    FOLD("std", NPA_STD, as_std, 5),
    OTHER("argmax", NPA_MAX, run_place),
    OTHER("argmin", NPA_MIN, run_place),
    OTHER("zeros_like", 0, run_zeros),
    OTHER("ones_like", 0, run_ones),
    OTHER("full_like", 0, run_full),
    OTHER("where", 0, run_where),
    OTHER("clip", 0, run_clip),
    OTHER("ndarray.clip", 0, run_clip),
    OTHER("cumsum", 0, run_scan),
    OTHER("ndarray.cumsum", 0, run_scan),
    OTHER("norm", 0, run_norm),
    OTHER("dot", 0, run_dot),
    OTHER("ndarray.dot", 0, run_dot),
    OTHER("array_equal", 0, run_equal),
    OTHER("diff", 0, run_diff),
    OTHER("outer", 0, run_outer),
    OTHER("roll", 0, run_roll),
    OTHER("concatenate", CONCATENATE, run_join),
    OTHER("stack", STACK, run_join),
    OTHER("vstack", VSTACK, run_join),
    OTHER("hstack", HSTACK, run_join),
    OTHER("ndarray.copy", 0, run_copy),
    OTHER("ndarray.astype", 0, run_cast),
    OTHER("ndarray.reshape", 0, run_reshape),
    OTHER("ndarray.ravel", 0, run_ravel),
    OTHER("zeros", ZEROS, run_new),
    OTHER("empty", EMPTY, run_new),
};

const npa_small_function *npa_small_find(PyObject *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (PyUnicode_CompareWithASCIIString(name, functions[i].name) == 0) {
            return &functions[i];
        }
    }
    return NULL;
}

PyObject *npa_small_function_call(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names)
{
    bool several = f->run == run_join || f->run == run_new; /* no array is the first */
    if (n < 1 || npa_here != NULL || !(several || npa_is_plain(args[0])) ||
        (f->run == run_fold
             ? !npa_small_folds((PyArrayObject *)args[0], (npa_small_op)f->what)
             : !several && npa_is_large((size_t)PyArray_NBYTES((PyArrayObject *)args[0])))) {
        return NULL;
    }
    return f->run(f, args, n, names);
}

int npa_small_init(void)
{
    for (int i = 1; i < WORDS; i++) {
        if ((words[i] = PyUnicode_InternFromString(spelt[i])) == NULL) {
            return -1;
        }
    }
    return 0;
}

/* Note [Small functions]
 *
 * NumPy's functions and methods that are written in Python take one to eight microseconds on small
 * arrays (np.std, np.roll), whatever the arrays hold. What each does on usual ones, plain arrays of
 * numbers in C order, is done here: the same loops in the same order, or moves of bytes. What is
 * unusual in a call or in its arrays is NumPy's, and so is whatever would warn (Note [Small
 * folds]).
 *
 * Where the order of a result's axes in memory is open, with axes of a single element, NumPy
 * decides. */
