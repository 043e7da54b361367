/* small_functions.c: the commonest functions and methods of NumPy's on small plain arrays, without
 * its Python code around them. See Note [Small functions] at the end. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------- folds */

PyObject *npa_small_words[WORDS];

static const char *const spelt[WORDS] = {"",         "axis",    "dtype", "out",
                                         "keepdims", "initial", "where", "ddof", "casting",
                                         "order"};

static const int8_t as_sum[] = {AXIS, DTYPE, OUT, KEEPDIMS, INITIAL, WHERE, END},
                    as_max[] = {AXIS, OUT, KEEPDIMS, INITIAL, WHERE, END},
                    as_any[] = {AXIS, OUT, KEEPDIMS, WHERE, END},
                    as_mean[] = {AXIS, DTYPE, OUT, KEEPDIMS, WHERE, END},
                    as_scan[] = {AXIS, DTYPE, OUT, END},
                    as_std[] = {AXIS, DTYPE, OUT, DDOF, KEEPDIMS, WHERE, END};

bool npa_small_axis(PyObject *value, int ndim, int *axis)
{
    int overflow = 0;
    long k = PyLong_CheckExact(value) ? PyLong_AsLongAndOverflow(value, &overflow) : ndim;
    k += k < 0 ? ndim : 0;
    *axis = (int)k;
    return !overflow && k >= 0 && k < ndim;
}

bool npa_small_names_nothing(PyObject *const *named, PyObject *names, const char *other)
{
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k);
        if (name == npa_small_words[ORDER] ? !npa_is_text(named[k], "C")
                                           : named[k] != Py_None || !npa_is_text(name, other)) {
            return false;
        }
    }
    return true;
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
        if (!npa_small_axis(of[k], ndim, &axis) || *axes >> axis & 1) {
            return false;
        }
        *axes |= 1u << axis;
    }
    return n > 0;
}

/* Whether a fold of `a` is computed in this type anyway. */
static bool is_own_type(PyObject *dtype, PyArrayObject *a)
{
    bool wide = PyArray_TYPE(a) == NPY_DOUBLE || PyArray_TYPE(a) == NPY_FLOAT;
    return dtype == Py_None || (wide && npa_small_type_named(dtype) == PyArray_TYPE(a));
}

/* What a word says. False: it is for NumPy. */
static bool read_word(const function *f, int word, PyObject *value, PyArrayObject *a,
                      npa_small_how *how)
{
    bool nothing = f->python && value == npa_no_value;
    int overflow = 0;
    switch (word) {
    case AXIS: return read_axes(value, PyArray_NDIM(a), &how->axes);
    case DTYPE: return is_own_type(value, a);
    case OUT: return value == Py_None;
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
    while (f->words[k] != END && npa_small_words[f->words[k]] != name) {
        k++;
    }
    return f->words[k] != END ? k : -1;
}

/* What a call says of how its array is folded. False: it is for NumPy. */
static bool read_how(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names,
                     npa_small_how *how)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    read_axes(Py_None, PyArray_NDIM(a), &how->axes);
    if (n - 1 > f->in_place) {
        return false;
    }
    for (Py_ssize_t k = 1; k < n; k++) {
        if (!read_word(f, f->words[k - 1], args[k], a, how)) {
            return false;
        }
    }
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        int place = place_of(f, PyTuple_GET_ITEM(names, k));
        if (place < n - 1 || !read_word(f, f->words[place], args[n + k], a, how)) {
            return false;
        }
    }
    return true;
}

/* array.fold(...) or fold(array, ...) */
static PyObject *run_fold(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    npa_small_how how = {.op = (npa_small_op)f->what};
    return read_how(f, args, n, names, &how) ? npa_small_fold((PyArrayObject *)args[0], &how)
                                             : NULL;
}

PyObject *npa_small_reduce(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    const function f = {.run = run_fold, .what = npa_small_op_of(ufunc), .words = as_sum,
                        .in_place = 6};
    if (f.what < 0 || n < 1 || !npa_is_plain(args[0]) ||
        !npa_small_folds((PyArrayObject *)args[0], (npa_small_op)f.what)) {
        return NULL;
    }
    bool axis = n > 1;
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        axis |= PyTuple_GET_ITEM(names, k) == npa_small_words[AXIS];
    }
    if (axis) {
        return npa_small_function_call(&f, args, n, names);
    }
    /* Along the first axis, where none is given. */
    PyArrayObject *a = (PyArrayObject *)args[0];
    npa_small_how how = {.op = (npa_small_op)f.what, .axes = 1};
    return names == NULL ? npa_small_fold(a, &how) : NULL;
}

/* Of single or double numbers. */
static bool has_nan(PyObject *result)
{
    PyArrayObject *a = (PyArrayObject *)result;
    if (!PyArray_Check(result)) {
        double value = PyFloat_AsDouble(result);
        return isnan(value);
    }
    bool found = false;
    for (npy_intp i = 0, n = PyArray_SIZE(a); !found && i < n; i++) {
        found = PyArray_TYPE(a) == NPY_DOUBLE ? isnan(((const double *)PyArray_DATA(a))[i])
                                              : isnan(((const float *)PyArray_DATA(a))[i]);
    }
    return found;
}

/* nanmax, nanmin of floats; where there are but NaNs NumPy warns */
static PyObject *run_nan_fold(const function *f, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    int type = PyArray_TYPE((PyArrayObject *)args[0]);
    PyObject *made = type == NPY_DOUBLE || type == NPY_FLOAT ? run_fold(f, args, n, names) : NULL;
    if (made != NULL && has_nan(made)) {
        Py_CLEAR(made);
    }
    return made;
}

/* cumsum, cumprod: of all elements, or along the only axis */
static PyObject *run_scan(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    npa_small_how how = {0};
    bool alone = n == 1 && names == NULL && PyArray_NDIM(a) > 0, one = PyArray_NDIM(a) == 1;
    for (Py_ssize_t k = 1; !alone && k < n + (names != NULL ? PyTuple_GET_SIZE(names) : 0); k++) {
        one &= !PyTuple_Check(args[k]); /* as an axis, which of a scan is one number */
    }
    return alone || (one && read_how(f, args, n, names, &how))
               ? npa_small_scan((npa_small_op)f->what, a) : NULL;
}

/* ufunc.accumulate, whose ufunc is the first */
static PyObject *run_accumulate(const function *f, PyObject *const *args, Py_ssize_t n,
                                PyObject *names)
{
    (void)f;
    int op = n == 2 && names == NULL ? npa_small_op_of(args[0]) : -1;
    return op >= 0 && npa_is_plain(args[1]) && PyArray_NDIM((PyArrayObject *)args[1]) == 1
             ? npa_small_scan((npa_small_op)op, (PyArrayObject *)args[1]) : NULL;
}

static PyObject *run_place(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    static const char *const words[] = {"a", "axis"};
    PyObject *given[2] = {NULL, Py_None};
    int axis = NPY_RAVEL_AXIS;
    if (!npa_read_call(args, n, names, words, 2, given) || PyArray_SIZE(a) == 0 ||
        (given[1] != Py_None && !npa_small_axis(given[1], PyArray_NDIM(a), &axis))) {
        return NULL;
    }
    if (axis == NPY_RAVEL_AXIS && npa_small_usual(args[0])) {
        PyArray_ArrFuncs *own = PyDataType_GetArrFuncs(PyArray_DESCR(a));
        npy_intp found = -1;
        if ((f->what == NPA_MAX ? own->argmax : own->argmin)(PyArray_DATA(a), PyArray_SIZE(a),
                                                             &found, a) < 0) {
            return NULL;
        }
        return PyArray_Scalar(&found, npa_small_dtype(NPY_INTP), NULL);
    }
    PyObject *place = f->what == NPA_MAX ? PyArray_ArgMax(a, axis, NULL)
                                         : PyArray_ArgMin(a, axis, NULL);
    return place != NULL ? PyArray_Return((PyArrayObject *)place) : NULL;
}

/* ------------------------------------------------------------------------------ new arrays */

/* Whether results are made of it as they are of a plain array in C order. */
bool npa_small_usual(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return npa_is_plain(o) && PyArray_NDIM(a) > 0 && PyArray_NDIM(a) <= NPA_SMALL_DIMS &&
           npa_small_type(PyArray_DESCR(a)) && PyArray_IS_C_CONTIGUOUS(a) && PyArray_SIZE(a) > 0 &&
           PyArray_ISALIGNED(a) && !(npa_waiting() && npa_is_pending(a));
}

bool npa_small_doubles(PyObject *o)
{
    return npa_small_usual(o) && PyArray_TYPE((PyArrayObject *)o) == NPY_DOUBLE;
}

PyArrayObject *npa_small_alike(PyArrayObject *a)
{
    return npa_small_new(PyArray_DESCR(a), PyArray_NDIM(a), PyArray_DIMS(a));
}

/* ------------------------------------------------------------------------------------ the table */

#define FOLD(name, what, words, in_place, exact)                                                  \
    {name, run_fold, what, words, in_place, true, exact},                                         \
    { "ndarray." name, run_fold, what, words, in_place, false, exact }
#define SCAN(name, what)                                                                          \
    {name, run_scan, what, as_scan, 3, true, false},                                              \
    { "ndarray." name, run_scan, what, as_scan, 3, false, false }
#define EXACT(name, what, run) {name, run, what, NULL, 0, false, true}
#define OTHER(name, what, run) {name, run, what, NULL, 0, false, false}

static const function functions[] = {
    FOLD("sum", NPA_SUM, as_sum, 6, false),
    FOLD("prod", NPA_PROD, as_sum, 6, false),
    FOLD("max", NPA_MAX, as_max, 5, true),
    FOLD("min", NPA_MIN, as_max, 5, true),
    FOLD("amax", NPA_MAX, as_max, 5, true),
    FOLD("amin", NPA_MIN, as_max, 5, true),
    FOLD("any", NPA_ANY, as_any, 1, true),
    FOLD("all", NPA_ALL, as_any, 1, true),
    FOLD("mean", NPA_MEAN, as_mean, 4, false),
    FOLD("var", NPA_VAR, as_std, 5, false),
    FOLD("std", NPA_STD, as_std, 5, false),
    {"nanmax", run_nan_fold, NPA_FMAX, as_max, 5, true, false},
    {"nanmin", run_nan_fold, NPA_FMIN, as_max, 5, true, false},
    EXACT("argmax", NPA_MAX, run_place),
    EXACT("argmin", NPA_MIN, run_place),
    EXACT("ndarray.argmax", NPA_MAX, run_place),
    EXACT("ndarray.argmin", NPA_MIN, run_place),
    EXACT("zeros_like", 0, npa_small_zeros),
    EXACT("ones_like", 0, npa_small_ones),
    EXACT("full_like", 0, npa_small_full),
    EXACT("where", 0, npa_small_where),
    EXACT("clip", 0, npa_small_clip),
    EXACT("ndarray.clip", 0, npa_small_clip),
    OTHER("round", 0, npa_small_round),
    OTHER("around", 0, npa_small_round),
    SCAN("cumsum", NPA_SUM),
    SCAN("cumprod", NPA_PROD),
    OTHER("ufunc.accumulate", 0, run_accumulate),
    OTHER("norm", 0, npa_small_norm),
    OTHER("dot", DOT, npa_small_dot),
    OTHER("ndarray.dot", DOT, npa_small_dot),
    OTHER("inner", INNER, npa_small_dot),
    OTHER("vdot", VDOT, npa_small_dot),
    OTHER("count_nonzero", 0, npa_small_count),
    OTHER("bincount", 0, npa_small_bincount),
    OTHER("array_equal", 0, npa_small_equal),
    EXACT("diff", 0, npa_small_diff),
    OTHER("outer", 0, npa_small_outer),
    EXACT("ndarray.take", 0, npa_small_take),
    EXACT("take", 0, npa_small_take),
    EXACT("roll", 0, npa_small_roll),
    EXACT("concatenate", CONCATENATE, npa_small_join),
    EXACT("stack", STACK, npa_small_join),
    EXACT("vstack", VSTACK, npa_small_join),
    EXACT("hstack", HSTACK, npa_small_join),
    EXACT("ndarray.copy", COPIED, npa_small_copy),
    EXACT("ndarray.flatten", FLAT, npa_small_copy),
    OTHER("array", ALIKE, npa_small_array),
    OTHER("copy", ALIKE, npa_small_copy),
    OTHER("asarray", 0, npa_small_listed),
    OTHER("asanyarray", 0, npa_small_listed),
    OTHER("empty_like", 0, npa_small_uninitialized),
    EXACT("ndarray.astype", 0, npa_small_cast),
    EXACT("ndarray.reshape", 0, npa_small_reshape),
    EXACT("ndarray.ravel", 0, npa_small_ravel),
    OTHER("sort", 0, npa_small_sort),
    OTHER("argsort", 0, npa_small_argsort),
    OTHER("ndarray.argsort", 0, npa_small_argsort),
    OTHER("searchsorted", 0, npa_small_search),
    OTHER("ndarray.searchsorted", 0, npa_small_search),
    OTHER("nonzero", 0, npa_small_nonzero),
    OTHER("ndarray.nonzero", 0, npa_small_nonzero),
    OTHER("repeat", 0, npa_small_repeat),
    OTHER("ndarray.repeat", 0, npa_small_repeat),
    OTHER("zeros", ZEROS, npa_small_made),
    OTHER("empty", EMPTY, npa_small_made),
    OTHER("copyto", ASSIGNED, npa_small_filled),
    OTHER("ndarray.fill", SCALAR, npa_small_filled),
    OTHER("arange", 0, npa_small_range),
    OTHER("cross", 0, npa_small_cross),
    OTHER("isclose", EACH_NEAR, npa_small_near),
    OTHER("allclose", ALL_NEAR, npa_small_near),
    OTHER("append", 0, npa_small_append),
    OTHER("median", 0, npa_small_median),
    OTHER("percentile", PERCENTILE, npa_small_quantile),
    OTHER("quantile", QUANTILE, npa_small_quantile),
    OTHER("partition", 0, npa_small_partition),
    OTHER("convolve", 0, npa_small_convolve),
    OTHER("diag", 0, npa_small_diag),
    OTHER("tril", LOWER_PART, npa_small_triangle),
    OTHER("triu", UPPER_PART, npa_small_triangle),
    OTHER("gradient", 0, npa_small_gradient),
    OTHER("solve", 0, npa_small_solve),
    OTHER("inv", INVERSE, npa_small_matrix),
    OTHER("det", DETERMINANT, npa_small_matrix),
    OTHER("fft", FFT, npa_small_transform),
    OTHER("ifft", IFFT, npa_small_transform),
    OTHER("rfft", RFFT, npa_small_transform),
    OTHER("irfft", IRFFT, npa_small_transform),
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

bool npa_small_folds_once(const npa_small_function *f)
{
    return f != NULL && f->run == run_fold && f->what != NPA_VAR && f->what != NPA_STD;
}

npa_small_op npa_small_fold_of(const npa_small_function *f, Py_ssize_t *out_place)
{
    *out_place = f->words[1] == DTYPE ? 3 : 2;
    return (npa_small_op)f->what;
}

/* Of a list of numbers, which NumPy makes an array of first. */
static PyObject *call_on_list(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    enum { MOST = 8 };
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    bool reads = f->run == run_fold || f->run == run_nan_fold || f->run == run_place ||
                 f->run == run_scan || f->run == npa_small_norm || f->run == npa_small_median ||
                 f->run == npa_small_quantile;
    PyObject *given[MOST], *result;
    if (!reads || all > MOST || Py_SIZE(args[0]) == 0 ||
        PyArray_Check(PyList_GET_ITEM(args[0], 0)) ||
        (given[0] = npa_small_listed(f, args, 1, NULL)) == NULL) {
        return NULL;
    }
    memcpy(given + 1, args + 1, sizeof *args * (size_t)(all - 1));
    result = npa_small_function_call(f, given, n, names);
    Py_DECREF(given[0]);
    return result;
}

bool npa_small_is_target(PyObject *out)
{
    PyArrayObject *a = (PyArrayObject *)out;
    enum { FLAGS = NPY_ARRAY_WRITEABLE | NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED };
    return PyArray_CheckExact(out) && (PyArray_FLAGS(a) & (FLAGS | NPA_WARN_ON_WRITE)) == FLAGS &&
           npa_small_type(PyArray_DESCR(a)) && !(npa_waiting() && npa_is_pending(a));
}

PyObject *npa_small_put_result(PyObject *made, PyObject *target)
{
    PyArrayObject *from = (PyArrayObject *)made, *to = (PyArrayObject *)target;
    bool fits = made != NULL && PyArray_CheckExact(made) && PyArray_IS_C_CONTIGUOUS(from) &&
                PyArray_SAMESHAPE(from, to) &&
                npa_same_dtype(PyArray_DESCR(from), PyArray_DESCR(to));
    if (fits) {
        memcpy(PyArray_DATA(to), PyArray_DATA(from), (size_t)PyArray_NBYTES(from));
    }
    Py_XDECREF(made);
    return fits ? Py_NewRef(target) : NULL;
}

/* Whether a product of vectors and matrices has this array's shape. */
static bool is_of_product(PyObject *a, PyObject *b, PyArrayObject *out)
{
    PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
    if (!PyArray_Check(b) || PyArray_NDIM(x) > 2 || PyArray_NDIM(y) > 2) {
        return false;
    }
    npy_intp shape[2];
    int ndim = 0;
    if (PyArray_NDIM(x) == 2) {
        shape[ndim++] = PyArray_DIM(x, 0);
    }
    if (PyArray_NDIM(y) == 2) {
        shape[ndim++] = PyArray_DIM(y, 1);
    }
    return PyArray_NDIM(out) == ndim && PyArray_CompareLists(PyArray_DIMS(out), shape, ndim);
}

/* Whether NumPy's result with out= has the bits and the warnings of the one without. Not of half
 * precision: what is reduced to that is rounded otherwise on its way. Of what warns it is asked
 * first whether it is of that shape. */
static bool takes_target(const function *f, PyObject *const *args, Py_ssize_t n, PyArrayObject *out)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    if (f->run == npa_small_join) {
        return f->what == CONCATENATE || f->what == STACK;
    }
    if (!PyArray_Check(args[0]) || PyArray_TYPE(out) == NPY_HALF ||
        PyArray_TYPE(a) != PyArray_TYPE(out)) {
        return false;
    }
    if (f->run == run_scan) {
        return PyArray_NDIM(out) == 1 && PyArray_SIZE(a) == PyArray_SIZE(out);
    }
    if (f->run == npa_small_dot) {
        return f->what == DOT && n == 2 && is_of_product(args[0], args[1], out);
    }
    return f->run == run_fold || f->run == npa_small_take;
}

/* A call with out= as the last of its names: the function without, and its result is moved. Where
 * errors are raised NumPy has written what led to them. */
static PyObject *call_onto(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t left = PyTuple_GET_SIZE(names) - 1;
    PyObject *out = args[n + left];
    if (npa_small_class != NULL || !npa_small_is_target(out) ||
        !takes_target(f, args, n, (PyArrayObject *)out) || npa_errstate() < 0) {
        return NULL;
    }
    PyObject *fewer = left > 0 ? PyTuple_GetSlice(names, 0, left) : NULL;
    PyObject *made = left == 0 || fewer != NULL ? npa_small_function_call(f, args, n, fewer) : NULL;
    Py_XDECREF(fewer);
    return npa_small_put_result(made, out);
}

/* Whether it has more bytes than such a call takes. NULL: no array is first. */
static bool is_too_large(const function *f, PyArrayObject *a)
{
    size_t bytes = a != NULL ? (size_t)PyArray_NBYTES(a) : 0;
    if (f->run == run_fold || f->run == run_nan_fold) {
        return !npa_small_folds(a, (npa_small_op)f->what);
    }
    if (f->run == npa_small_reshape || f->run == npa_small_ravel) {
        return false; /* views */
    }
    if (f->run == npa_small_triangle && npa_whole > 0) {
        return bytes > NPA_SMALL_AT_ONCE;
    }
    return f->run == npa_small_where ? npa_small_exceeds(bytes) : npa_small_is_large(bytes);
}

PyObject *npa_small_function_call(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names)
{
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    if (n > 0 && named > 0 && PyTuple_GET_ITEM(names, named - 1) == npa_small_words[OUT] &&
        args[n + named - 1] != Py_None) {
        return call_onto(f, args, n, names);
    }
    bool number = f->run == npa_small_clip || f->run == npa_small_round;
    bool several = (number && n > 0 && !PyArray_Check(args[0])) ||
                   f->run == npa_small_join || f->run == npa_small_made ||
                   f->run == npa_small_range || f->run == run_accumulate ||
                   ((f->run == npa_small_array || f->run == npa_small_listed) && n > 0 &&
                    !PyArray_Check(args[0])); /* no array is first */
    if (n < 1 || npa_here != NULL) {
        return NULL;
    }
    if (!(several || npa_is_plain(args[0]))) {
        return PyList_CheckExact(args[0]) ? call_on_list(f, args, n, names) : NULL;
    }
    bool large = is_too_large(f, several ? NULL : (PyArrayObject *)args[0]);
    return large ? NULL : f->run(f, args, n, names);
}

PyObject *npa_small_function_ours(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names)
{
    /* What is recorded of complex numbers is not all there is. */
    bool real = n > 0 && !(PyArray_Check(args[0]) && PyArray_ISCOMPLEX((PyArrayObject *)args[0]));
    npa_small_class = npa_array_type;
    PyObject *result = f->exact && real ? npa_small_function_call(f, args, n, names) : NULL;
    npa_small_class = NULL;
    return result;
}

int npa_small_init(void)
{
    for (int i = 1; i < WORDS; i++) {
        if ((npa_small_words[i] = PyUnicode_InternFromString(spelt[i])) == NULL) {
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
