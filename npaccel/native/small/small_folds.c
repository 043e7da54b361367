/* small_folds.c: sums, extremes, means and their like of small plain arrays, by NumPy's inner loops
 * and in NumPy's order. See Note [Small folds] at the end. */
#include "small/small.h"
#include "small/ways.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { MOST_ELEMENTS = 8192, MOST_AT_ONCE = 1 << 20, UFUNCS = NPA_FMIN + 1 };

/* The ufuncs that fold, and what a fold begins with; without that, with its first element. */
static struct {
    const char *name;
    bool begins;
    int with;
    PyUFuncObject *ufunc;
    npa_exactness exact;
} ufuncs[UFUNCS] = {
    [NPA_SUM] = {.name = "add", .begins = true, .with = 0},
    [NPA_PROD] = {.name = "multiply", .begins = true, .with = 1},
    [NPA_MAX] = {.name = "maximum"},
    [NPA_MIN] = {.name = "minimum"},
    [NPA_ANY] = {.name = "logical_or", .begins = true, .with = 0},
    [NPA_ALL] = {.name = "logical_and", .begins = true, .with = 1},
    [NPA_FMAX] = {.name = "fmax"},
    [NPA_FMIN] = {.name = "fmin"},
};

void npa_small_fold_ufunc(PyUFuncObject *u, npa_exactness how)
{
    for (int i = 0; i < UFUNCS; i++) {
        if (strcmp(ufuncs[i].name, u->name) == 0) {
            ufuncs[i].ufunc = u, ufuncs[i].exact = how;
        }
    }
}

PyObject *npa_small_folder(npa_small_op op)
{
    static PyObject *found[UFUNCS]; /* before there was a block, too */
    int i = op < NPA_MEAN ? (int)op : NPA_SUM;
    PyObject *module = found[i] == NULL ? PyImport_ImportModule("numpy") : NULL;
    found[i] = module != NULL ? PyObject_GetAttrString(module, ufuncs[i].name) : found[i];
    Py_XDECREF(module);
    return found[i];
}

int npa_small_op_of(PyObject *ufunc)
{
    int i = 0;
    while (i < UFUNCS && (PyObject *)ufuncs[i].ufunc != ufunc) {
        i++;
    }
    return i < UFUNCS ? i : -1;
}

/* Where a fold's result goes: to an array, or to a number. */
typedef struct {
    PyArrayObject *array;
    char number[16];
} target;

static inline char *data_of(target *t)
{
    return t->array != NULL ? PyArray_DATA(t->array) : t->number;
}
static inline npy_intp points_of(const target *t)
{
    return t->array != NULL ? PyArray_SIZE(t->array) : 1;
}

static inline bool is_folded(const npa_small_how *how, int axis) { return how->axes >> axis & 1; }
static inline bool all_folded(const npa_small_how *how, PyArrayObject *a)
{
    return how->axes == (1u << PyArray_NDIM(a)) - 1;
}

static bool make_target(target *t, PyArray_Descr *descr, PyArrayObject *a, const npa_small_how *how)
{
    npy_intp shape[NPA_SMALL_DIMS];
    int n = 0;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        if (!is_folded(how, i)) {
            shape[n++] = PyArray_DIM(a, i);
        } else if (how->keepdims) {
            shape[n++] = 1;
        }
    }
    t->array = n > 0 ? npa_small_new(descr, n, shape) : NULL;
    return n == 0 || t->array != NULL;
}

/* ---------------------------------------------------------------------------------- one fold */

static bool in_one_piece(PyArrayObject *a)
{
    return PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a);
}

/* Whether it is a matrix that lies column by column: then its axes change places. */
static bool is_turned(PyArrayObject *a, const npa_small_how *how)
{
    return PyArray_NDIM(a) == 2 && !how->keepdims && PyArray_DIM(a, 0) > 1 &&
           PyArray_DIM(a, 1) > 1 && PyArray_STRIDE(a, 0) < PyArray_STRIDE(a, 1);
}

/* The axes and steps along which `a` is folded. False: the order in which NumPy goes is its own. */
static bool lay_out(npa_space *s, PyArrayObject *a, const npa_small_how *how, const npa_way *w)
{
    int ndim = PyArray_NDIM(a);
    s->nargs = 3, s->ndim = ndim;
    s->of[1].data = PyArray_DATA(a);
    if (all_folded(how, a) && in_one_piece(a)) {
        s->ndim = 1, s->shape[0] = PyArray_SIZE(a);
        s->of[1].steps[0] = w->in_size, s->of[0].steps[0] = 0;
        s->of[2] = s->of[0];
        return true;
    }
    /* Sums with a cast are exact; the order of a result's axes is that of the array's. */
    int axes = how->keepdims ? ndim : ndim - __builtin_popcount(how->axes);
    bool turned = is_turned(a, how), exact = w->in != w->out, ordered = !exact || axes > 1;
    npy_intp before = NPY_MAX_INTP, step = w->out_size;
    for (int i = 0; i < ndim; i++) {
        int axis = turned ? 1 - i : i;
        bool moves = PyArray_DIM(a, axis) != 1;
        s->shape[i] = PyArray_DIM(a, axis), s->of[1].steps[i] = moves ? PyArray_STRIDE(a, axis) : 0;
        if (ordered && moves && (s->of[1].steps[i] <= 0 || s->of[1].steps[i] >= before)) {
            return false;
        }
        before = moves ? s->of[1].steps[i] : before;
    }
    for (int i = ndim - 1; i >= 0; i--) {
        bool folded = is_folded(how, turned ? 1 - i : i);
        s->of[0].steps[i] = folded || s->shape[i] == 1 ? 0 : step;
        step *= folded ? 1 : s->shape[i];
    }
    s->of[2] = s->of[0];
    npa_merge_axes(s);
    int folded = 0;
    for (int i = 0; i < s->ndim; i++) {
        folded += s->of[0].steps[i] == 0 && s->shape[i] > 1;
    }
    return exact || folded <= 1;
}

/* Whether no folded axis is beyond its first place but the last one. */
static bool is_first(const npa_space *s, const npy_intp *index)
{
    for (int i = 0; i < s->ndim - 1; i++) {
        if (s->of[0].steps[i] == 0 && index[i] != 0) {
            return false;
        }
    }
    return true;
}

/* As NumPy does: the target holds what a fold begins with, or takes the first elements, with which
 * the loop is not called. */
static void run(const npa_way *w, npa_space *s, bool begun)
{
    char *args[3] = {s->of[0].data, s->of[1].data, s->of[0].data};
    int last = s->ndim - 1;
    npy_intp steps[3] = {s->of[0].steps[last], s->of[1].steps[last], s->of[0].steps[last]};
    npy_intp index[NPA_SMALL_DIMS] = {0};
    do {
        char *p[3] = {args[0], args[1], args[0]};
        npy_intp count = s->shape[last], taken = steps[0] == 0 ? 1 : count;
        if (!begun && is_first(s, index)) {
            for (npy_intp i = 0; i < taken; i++) {
                memcpy(p[0] + i * steps[0], p[1] + i * steps[1], (size_t)w->in_size);
            }
            p[1] += taken * steps[1], count -= taken;
        }
        if (count > 0) {
            w->loop(p, &count, steps, w->data);
        }
    } while (npa_next_row(s, index, args));
}

static void fill(char *to, npy_intp n, npy_intp size, int type, int with)
{
    char one[16] = {0};
    if (with != 0) {
        switch (type) {
        case NPY_FLOAT: case NPY_CFLOAT: *(npy_float *)(void *)one = 1; break;
        case NPY_DOUBLE: case NPY_CDOUBLE: *(npy_double *)(void *)one = 1; break;
        default: one[NPY_BYTE_ORDER == NPY_LITTLE_ENDIAN ? 0 : size - 1] = 1;
        }
    }
    for (npy_intp i = 0; i < n; i++) {
        memcpy(to + i * size, one, (size_t)size);
    }
}

/* Fold `a` in such a way; a target of two folds is made once. */
static bool fold_by(const npa_way *w, npa_small_op op, PyArrayObject *a, const npa_small_how *how,
                    target *t, bool made)
{
    npa_space s;
    if (!npa_is_simple(a, w) || !lay_out(&s, a, how, w) ||
        !(made || make_target(t, w->out, a, how))) {
        return false;
    }
    s.of[0].data = s.of[2].data = data_of(t);
    if (ufuncs[op].begins) {
        fill(s.of[0].data, points_of(t), w->out_size, w->type, ufuncs[op].with);
    }
    run(w, &s, ufuncs[op].begins);
    return true;
}

/* The same of a type that the ufunc's loop keeps. */
static bool fold(npa_small_op op, PyArrayObject *a, const npa_small_how *how, target *t, bool made)
{
    if (ufuncs[op].ufunc == NULL) {
        return false;
    }
    const npa_way *w = npa_find_way(ufuncs[op].ufunc, PyArray_TYPE(a), ufuncs[op].exact);
    return w->loop != NULL && w->out == w->in && fold_by(w, op, a, how, t, made);
}

/* ----------------------------------------------------------------- types that are changed first */

/* The type in which NumPy folds; that of `a` where it is none of what is done here. */
static int folded_type(const npa_small_how *how, int type)
{
    switch (how->op) {
    case NPA_SUM: case NPA_PROD:
        if (PyTypeNum_ISUNSIGNED(type)) {
            return type < NPY_UINTP ? NPY_UINTP : type;
        }
        return type < NPY_INTP ? NPY_INTP : type;
    case NPA_ANY: case NPA_ALL: return NPY_BOOL;
    case NPA_MAX: case NPA_MIN: case NPA_FMAX: case NPA_FMIN: return type;
    default: return type == NPY_BOOL || PyTypeNum_ISINTEGER(type) ? NPY_DOUBLE : type;
    }
}

/* How many elements are folded to one. */
static npy_intp number_folded(PyArrayObject *a, const npa_small_how *how)
{
    npy_intp n = 1;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        n *= is_folded(how, i) ? PyArray_DIM(a, i) : 1;
    }
    return n;
}

static const npa_wide_sum *wide_sum(int type, npa_small_op op)
{
    return (op == NPA_SUM || op == NPA_MEAN) && ufuncs[NPA_SUM].ufunc != NULL
             ? npa_find_wide_sum(type) : NULL;
}

/* The sum or mean of narrow integers or truth values, added as integers of 64 bits: NumPy adds
 * doubles for a mean, which are exact as long as they stay below 2^53. */
static bool fold_wide(const npa_wide_sum *sum, PyArrayObject *a, const npa_small_how *how,
                      target *t)
{
    bool mean = how->op == NPA_MEAN;
    npa_small_how as_sum = {.op = NPA_SUM};
    int type = mean ? NPY_DOUBLE : folded_type(&as_sum, PyArray_TYPE(a));
    const npa_way w = {.loop = sum->add,
                       .type = type,
                       .in = npa_small_dtype(PyArray_TYPE(a)),
                       .out = npa_small_dtype(type),
                       .in_size = sum->size,
                       .out_size = 8};
    if (!fold_by(&w, NPA_SUM, a, how, t, false)) {
        return false;
    }
    npy_intp n = mean ? points_of(t) : 0;
    char *data = data_of(t);
    for (npy_intp i = 0; i < n; i++) {
        int64_t whole;
        memcpy(&whole, data + 8 * i, 8);
        double average = (double)whole / (double)number_folded(a, how);
        memcpy(data + 8 * i, &average, 8);
    }
    return true;
}

/* Whether sums of these have no rounding, in whatever order. */
static bool sums_exactly(PyArrayObject *a)
{
    const double *v = PyArray_DATA(a);
    npy_intp n = PyArray_SIZE(a);
    double most = 0;
    for (npy_intp i = 0; i < n; i++) {
        most = fabs(v[i]) > most ? fabs(v[i]) : most;
    }
    return most * (double)n < 9007199254740992.0;
}

/* `a` in the type in which it is folded; a new reference. NULL, perhaps without error: NumPy's to
 * do. NumPy casts in pieces, which changes nothing: what follows is exact. */
static PyArrayObject *in_type(PyArrayObject *a, const npa_small_how *how, int type)
{
    bool order = PyArray_IS_C_CONTIGUOUS(a) ||
                 (all_folded(how, a) && !how->keepdims && how->op <= NPA_MEAN);
    if (PyArray_TYPE(a) == type) {
        return (PyArrayObject *)Py_NewRef(a);
    }
    PyArray_Descr *descr = order ? PyArray_DescrFromType(type) : NULL; /* lives as long as NumPy */
    PyArrayObject *made = order ? npa_small_new(descr, PyArray_NDIM(a), PyArray_DIMS(a)) : NULL;
    Py_XDECREF(descr);
    bool wide = type == NPY_DOUBLE && PyArray_ITEMSIZE(a) == 8;
    if (made != NULL && (PyArray_CopyInto(made, a) < 0 || (wide && !sums_exactly(made)))) {
        Py_CLEAR(made);
    }
    return made;
}

/* ------------------------------------------------------------------------- means and deviations */

/* As NumPy divides by an integer: in doubles, cast back. */
static void divide(target *t, int type, double by)
{
    npy_intp n = points_of(t);
    void *data = data_of(t);
    for (npy_intp i = 0; i < n; i++) {
        if (type == NPY_DOUBLE) {
            ((double *)data)[i] /= by;
        } else {
            ((float *)data)[i] = (float)((double)((float *)data)[i] / by);
        }
    }
}

void npa_small_roots(int type, void *data, npy_intp n)
{
    for (npy_intp i = 0; i < n; i++) {
        if (type == NPY_DOUBLE) {
            ((double *)data)[i] = sqrt(((double *)data)[i]);
        } else {
            ((float *)data)[i] = sqrtf(((float *)data)[i]);
        }
    }
}

/* The squares of what is left without the means: outer x n x inner elements, in C order. */
#define SQUARES(type)                                                                             \
    NPA_EACH_PROCESSOR static void squares_##type(const type *v, type *to, const type *mean,      \
                                                  npy_intp outer, npy_intp n, npy_intp inner)     \
    {                                                                                             \
        npy_intp row = inner == 1 ? n : inner, rows = inner == 1 ? 1 : n;                         \
        for (npy_intp o = 0; o < outer; o++, mean += inner) {                                     \
            for (npy_intp k = 0; k < rows; k++, v += row, to += row) {                            \
                for (npy_intp i = 0; i < row; i++) {                                              \
                    type left = v[i] - (inner == 1 ? mean[0] : mean[i]);                          \
                    to[i] = left * left;                                                          \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
    }
SQUARES(double)
SQUARES(float)

static PyArrayObject *squares_of(PyArrayObject *a, const npa_small_how *how, target *means)
{
    npy_intp outer = 1, n = number_folded(a, how), inner = 1;
    /* The folded axes, which are neighbours, or the fold would not have been done */
    bool behind = false;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        behind |= is_folded(how, i) && PyArray_DIM(a, i) > 1;
        *(behind ? &inner : &outer) *= is_folded(how, i) ? 1 : PyArray_DIM(a, i);
    }
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), PyArray_NDIM(a), PyArray_DIMS(a));
    if (made != NULL && PyArray_TYPE(a) == NPY_DOUBLE) {
        squares_double(PyArray_DATA(a), PyArray_DATA(made), (double *)(void *)data_of(means), outer,
                       n, inner);
    } else if (made != NULL) {
        squares_float(PyArray_DATA(a), PyArray_DATA(made), (float *)(void *)data_of(means), outer,
                      n, inner);
    }
    return made;
}

/* Mean, variance, standard deviation of floats. */
static bool average(PyArrayObject *a, const npa_small_how *how, target *t)
{
    int type = PyArray_TYPE(a);
    npy_intp n = number_folded(a, how);
    bool spread = how->op != NPA_MEAN;
    if ((type != NPY_DOUBLE && type != NPY_FLOAT) ||
        (spread && (!PyArray_IS_C_CONTIGUOUS(a) || n <= how->ddof)) ||
        !fold(NPA_SUM, a, how, t, false)) {
        return false;
    }
    divide(t, type, (double)n);
    if (spread) {
        PyArrayObject *squares = squares_of(a, how, t);
        bool done = squares != NULL && fold(NPA_SUM, squares, how, t, true);
        Py_XDECREF(squares);
        if (!done) {
            return false;
        }
        divide(t, type, (double)(n - how->ddof));
    }
    if (how->op == NPA_STD) {
        npa_small_roots(type, data_of(t), points_of(t));
    }
    return true;
}

/* ------------------------------------------------------------------------------- of what size */

static bool is_extreme(npa_small_op op)
{
    return op == NPA_MAX || op == NPA_MIN || op == NPA_FMAX || op == NPA_FMIN;
}

/* Whether NumPy calls the loop that adds floats, or multiplies, once for all of it: it has no
 * reason to use its buffer. */
static bool is_one_run(PyArrayObject *a, npa_small_op op)
{
    int type = PyArray_TYPE(a);
    bool number = type == NPY_FLOAT || type == NPY_DOUBLE || PyTypeNum_ISCOMPLEX(type);
    bool adds = op == NPA_SUM || op == NPA_PROD || op >= NPA_MEAN;
    return number && adds && (in_one_piece(a) || PyArray_NDIM(a) == 1);
}

/* Whether as many elements as `a` has are folded here. Extremes and sums of integers are the same
 * in any order, of all of what is somewhat larger, too; of floats as many as NumPy's buffer has. */
bool npa_small_folds(PyArrayObject *a, npa_small_op op)
{
    PyObject *o = (PyObject *)a;
    npy_intp n = PyArray_SIZE(a);
    int type = PyArray_TYPE(a);
    bool extreme = is_extreme(op), logical = op == NPA_ANY || op == NPA_ALL;
    if ((n <= MOST_ELEMENTS && !npa_small_is_large((size_t)n * 16)) ||
        (type == NPY_BOOL && (extreme || logical))) { /* see small_decided.c */
        return true;
    }
    bool whole = type == NPY_INTP || type == NPY_UINTP;
    bool exact = extreme ? !PyTypeNum_ISCOMPLEX(type)
               : whole   ? op == NPA_SUM || op == NPA_PROD
                         : wide_sum(type, op) != NULL || is_one_run(a, op);
    return exact && (!npa_small_is_large((size_t)PyArray_NBYTES(a)) ||
                     ((extreme || whole) && npa_small_class == NULL && in_one_piece(a) &&
                      !npa_is_hidden(a) && npa_at_once(&o, 1, MOST_AT_ONCE)));
}

/* Whether a copy in one piece may be folded instead. A line is added up where it lies. */
static bool goes_together(PyArrayObject *a, const npa_small_how *how)
{
    bool adds = how->op == NPA_SUM || how->op == NPA_MEAN;
    return all_folded(how, a) && !in_one_piece(a) && PyArray_SIZE(a) <= MOST_ELEMENTS &&
           !(adds && PyArray_NDIM(a) == 1);
}

/* Which NaN an extreme is, or which zero, hangs on the order of the elements. */
static bool hangs_on_order(PyObject *result, PyArrayObject *a, const npa_small_how *how)
{
    if (PyArray_DESCR(a)->kind != 'f' || !is_extreme(how->op)) {
        return false;
    }
    double value = PyFloat_Check(result) ? PyFloat_AS_DOUBLE(result) : 0;
    return value == 0 || value != value;
}

/* The fold without looking at where the array lies; false: NumPy's to do, or it tells of it. */
static bool fold_here(PyArrayObject *a, const npa_small_how *how, target *t)
{
    const npa_wide_sum *wide = wide_sum(PyArray_TYPE(a), how->op);
    bool done;
    if (wide != NULL) {
        npa_clear_errors();
        done = fold_wide(wide, a, how, t);
    } else {
        PyArrayObject *folded = in_type(a, how, folded_type(how, PyArray_TYPE(a)));
        npa_clear_errors();
        done = folded != NULL && (how->op >= NPA_MEAN ? average(folded, how, t)
                                                      : fold(how->op, folded, how, t, false));
        Py_XDECREF(folded);
    }
    return !npa_seen_errors() && done;
}

PyObject *npa_small_fold(PyArrayObject *a, const npa_small_how *how)
{
    int ndim = PyArray_NDIM(a), type = PyArray_TYPE(a);
    npy_intp n = PyArray_SIZE(a);
    target t = {.array = NULL};
    PyObject *known = ndim > 0 ? npa_small_decided(a, how) : NULL;
    if (known != NULL) {
        return known;
    }
    if (ndim == 0 || ndim > NPA_SMALL_DIMS || n == 0 || !npa_small_folds(a, how->op) ||
        !npa_is_number(type) || npa_here != NULL ||
        (!all_folded(how, a) && (npa_small_is_large((size_t)PyArray_NBYTES(a)) ||
                                 (n > MOST_ELEMENTS && is_one_run(a, how->op)))) ||
        !PyArray_ISNBO(PyArray_DESCR(a)->byteorder) || (npa_waiting() && npa_is_pending(a))) {
        return NULL;
    }
    PyArrayObject *gathered = goes_together(a, how)
        ? npa_small_gathered(a, (PyObject *)ufuncs[NPA_SUM].ufunc) : NULL;
    if (gathered != NULL) {
        PyObject *result = npa_small_fold(gathered, how);
        Py_DECREF(gathered);
        if (result != NULL && hangs_on_order(result, a, how)) {
            Py_CLEAR(result);
        }
        return result;
    }
    if (!fold_here(a, how, &t)) { /* NumPy says so, where it would */
        Py_XDECREF(t.array);
        return NULL;
    }
    if (t.array != NULL) {
        return (PyObject *)t.array;
    }
    PyArray_Descr *descr = PyArray_DescrFromType(folded_type(how, type));
    PyObject *scalar = PyArray_Scalar(t.number, descr, NULL);
    Py_DECREF(descr);
    return scalar;
}

/* How elements of that type are folded one by one. False: NumPy knows. */
static bool find_scan(npa_small_op op, PyArrayObject *a, npa_way *found)
{
    const npa_small_how how = {.op = op};
    int type = PyArray_TYPE(a);
    const npa_wide_sum *wide = op == NPA_SUM ? wide_sum(type, op) : NULL;
    if (wide != NULL) {
        *found = (npa_way){.loop = wide->scan, .in_size = wide->size, .out_size = 8};
        found->in = npa_small_dtype(type), found->out = npa_small_dtype(folded_type(&how, type));
        return true;
    }
    const npa_way *w = op > NPA_MIN || ufuncs[op].ufunc == NULL
                         ? NULL : npa_find_way(ufuncs[op].ufunc, type, ufuncs[op].exact);
    if (w == NULL || w->loop == NULL || w->out != w->in || folded_type(&how, type) != type) {
        return false;
    }
    *found = *w, found->loop = npa_scan_loop(ufuncs[op].name, type, w->loop);
    return true;
}

PyObject *npa_small_scan(npa_small_op op, PyArrayObject *a)
{
    npy_intp n = PyArray_SIZE(a), count = n - 1;
    npa_way w;
    if (n == 0 || !PyArray_IS_C_CONTIGUOUS(a) || !find_scan(op, a, &w) || !npa_is_simple(a, &w) ||
        npa_small_is_large((size_t)(n * w.out_size))) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(w.out, 1, &n);
    if (made == NULL) {
        return NULL;
    }
    char *to = PyArray_DATA(made), *args[3] = {to, PyArray_BYTES(a) + w.in_size, to + w.out_size};
    npy_intp steps[3] = {w.out_size, w.in_size, w.out_size};
    npa_cast(PyArray_TYPE(a), PyArray_DATA(a), 0, w.out->type_num, to, 0, 1);
    npa_clear_errors();
    if (count > 0) {
        w.loop(args, &count, steps, w.data);
    }
    if (npa_seen_errors()) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

/* Note [Small folds]
 *
 * As in Note [Small], but for what folds an array: NumPy takes a microsecond for the sum of ten
 * doubles, most of it in Python code around the call and in the iterator, a few nanoseconds in the
 * loop.
 *
 * Floats must be added in NumPy's order. Its iterator goes through an array in the order of memory,
 * joins axes that can be, and calls the ufunc's loop along the last one: with a step of 0 in the
 * result where that is folded (the loop adds in pairs), else on a whole row of results at a time.
 * The same is done here, with the same loop. What it would sort in another way than by falling
 * steps (repeated elements, axes that run backwards, three axes that are not in C order) is
 * NumPy's, as is what is longer than its buffer, unless it is one run. What has several axes that
 * cannot be joined it copies together first, where all of it is folded (small_scattered.c).
 *
 * What it casts first (small integers, truth values; integers whose mean is taken) it casts by
 * buffers; sums of these need no cast here, and all else is cast at once, in whatever order.
 *
 * If the processor has seen an error, the result is thrown away and NumPy does it all again: it
 * knows whether to warn, and at which line. */
